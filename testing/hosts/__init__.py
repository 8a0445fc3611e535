"""Places to run in: network namespaces, forwarded ports, a file system of some megabytes, a container without an engine.

namespaces          hosts, containers and neighbours as network namespaces
links               hosts on one network, whose links can be cut
forward, forwarder  ports that lead to another address or namespace, as engines publish them
holder              a process that holds namespaces and mounts
small_disk          a file system that is full or fails
toy_container       a container without an engine
"""
