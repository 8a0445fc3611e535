"""The parts of a response to a Fetch, which the handler puts together; `replication/fetching.py` reads.

of_follower          the usual request of a follower
responses            the partitions of a response, in every case, and what old clients get in place of records
down_conversion      records in the format of old versions
"""
