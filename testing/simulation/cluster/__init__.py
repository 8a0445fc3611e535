"""Several brokers in one process, whose network and metadata store fail by chance, with clients and what must be true of them.

checks        what must be true while a history runs and after it
clients       producers, readers and a group that commits offsets
cluster       the brokers and their lives
history       a history, drawn from a seed
model         what the clients know
mutants       faults that are planted, to show that histories find them
network       the links between processes
process       a life of a node
scheduling    the turns of all event loops
store         the metadata store in etcd
transactions  a transactional producer, and what must be true of its transactions
"""
