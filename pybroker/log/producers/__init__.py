"""The state that a log keeps of producers with an id.

producer_state       all producers of a partition, and its open transactions
producer_entry       one producer: its last five batches
producer_snapshot    the file that keeps them
"""
