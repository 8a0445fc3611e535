"""The parts of a response to a Fetch, which the handler puts together; `replication/fetching.py` reads.

of_follower          the usual request of a follower
usual                the usual request of a consumer, and the topics of every response (_usual_python, _usual_native)
responses            a partition of a response, in every case, and what old clients get in place of records
down_conversion      records in the format of old versions
"""
