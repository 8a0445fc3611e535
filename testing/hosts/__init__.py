"""Places to run in: network namespaces, forwarded ports, a file system of some megabytes, a container without an engine."""
