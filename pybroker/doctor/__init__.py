"""Looks at a cluster as a client does, and explains what prevents a client from using it.

examine         the whole examination: the bootstrap address, and each broker that it lists
look            looks at one address: its name, its connection, and what responds there
health          looks at the partitions: what they lack, and which brokers are missing
findings        what was found at an address, as plain data
advice          the findings in words, and what to change
"""
