"""The verbs of the API: every module has routes, and the functions that carry them out in the thread of the listener.

state           whether the broker lives, its cluster, its memory, its clients
topics          topics and their settings
records         records of a topic
groups          groups and their offsets
transactions    transactions
faults          rules of faults, the last requests, the reset
clock           the broker's time
"""
