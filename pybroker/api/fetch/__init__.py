"""The parts of a response to a Fetch, which the handler puts together; `replication/fetching.py` reads.

responses            the partitions of a response, in every case, and what old clients get in place of records
down_conversion      records in the format of old versions
"""
