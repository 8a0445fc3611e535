"""Requests byte by byte. As oracles, `raw`, `legacy`, `batches` and `frames` share no code with the broker.

raw           Produce, Fetch and ListOffsets from version 0 on
raw_groups    the requests of groups
legacy        message sets of magic 0 and 1
batches       batches of magic 2, by kafka-python
frames        requests of every API, and what a fuzzer makes of them
kio_classes   kio's declaration of a message of ours
small_blocks  compressed data that takes a decoder long for each byte
examples      a request of any API, from the declaration of its message
one_request   one request at a time, by the broker's codec, with its error code
"""
