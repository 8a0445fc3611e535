"""A small blocking client of Kafka's protocol, for jobs that need batches as they lie in the log.

client      a cluster: its topics, the leaders of partitions, fetching, and producing batch by batch
connection  one connection to one broker, by `pybroker.client`
writer      batches to one partition, several requests in flight at a time
errors      what can go wrong, as PipelineErrors
"""
