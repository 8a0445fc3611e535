"""How a follower copies its leaders' logs, without sockets and without a clock of its own: `broker/replication.py` moves it.

session     the follower's half of a fetch session: what a request must name
fetcher     the partitions that are fetched from one broker: the next request, and what a response means
"""
