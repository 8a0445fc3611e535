"""How long work shares the event loop with others: one way to write it, and one runner for each place where it runs.

work          what long work is: a generator that yields wherever others may get their turn; how far it is run at a time
loop          runs the work of a request on the loop, and makes a Future of it if it does not end within a slice
background    runs the work of the broker itself, beside requests
mailbox       runs work on one state, one after the other
turns         the turns of the loop: measured, named, and bounded in each of its rounds
"""
