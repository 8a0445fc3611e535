"""A metadata store that one process owns, and offers to other processes of the machine on a unix socket.

server      serves any store: commits, listings, changes as they happen, sessions that end with their connection
store       the contract on the other side of the socket
messages    the frames on the socket
"""
