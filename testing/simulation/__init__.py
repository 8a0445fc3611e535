"""A disk, a metadata store, a clock and a loop that a test controls, and that can lose whatever was not durable.

broker          a whole broker on the simulated parts
cluster         several brokers, with the network and the store between them
disk, nodes     the file system, and its files and directories
faults          what fails on the disk, and when
store           the metadata store
etcd            a member of etcd, for the metadata store that is kept there
clock           a manual clock whose wall time can be set
loop            the event loop and the disk threads
subsets         every disk that a loss of power can leave
"""
