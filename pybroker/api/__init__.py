"""The front of the broker: takes a decoded request to the handler of its API and the handler's response back to the connection.

handlers/            one module per API that the broker serves
absent_features      the APIs of features that are off: the errors that they respond with
configs/             what the handlers of configurations share: resources, described settings, loggers
registry             the APIs with their versions, handlers and messages
dispatch             request in, response out: decodes, calls the handler, turns errors into responses, counts
context              what a handler gets beside the request
deferred             responses that wait for an operation in a purgatory
pieces               large requests, cut into small ones whose responses are joined
error_response       the response that carries one error in the form of any API
error_counts         which fields of a response are error codes, for the metrics
response_memo        encoded responses, such as those to Metadata, kept for as long as the metadata stays the same
metadata_topics, nodes          what Metadata, DescribeCluster, DescribeTopicPartitions and FindCoordinator share
fetch                the responses to a Fetch
repeats              what is kept of a request, so that those like it need no decoding
one_partition, _one_partition_*     a Produce of one partition, the usual one: one text for both builds
produce_layout, produce_response, produce_makers    the partitions of a Produce, and the response with their results
produce_operation    the general way of a Produce: appends in slices, and the wait until they are replicated and durable
validations, transactional_append    the appends of a Produce in threads, and in transactions
committed_offsets    which offsets of an OffsetCommit or a TxnOffsetCommit can be committed, and the responses by topics
document             writes docs/apis.md from the texts of the handlers
"""
