"""Which address a client gets, by where it connects from: in a container, the broker has one name inside and another outside.

advertised    joins the others, for the running broker
origin        where a connection comes from, and which address that means
routes        the networks of this machine, as the kernel lists them
local_peer    whether the other end of a connection is a process of this machine
"""
