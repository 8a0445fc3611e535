"""The clients that have sent requests to a broker: what they used, and how much, over all its lives.

clients     counts what each client does
file        keeps the counts over restarts
"""
