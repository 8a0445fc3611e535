"""Sockets: connections, memory-bounded requests, muting; asynchronous."""
