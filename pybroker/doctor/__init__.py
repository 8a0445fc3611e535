"""Looks at a cluster as a client does, and says in words what keeps a client from it."""
