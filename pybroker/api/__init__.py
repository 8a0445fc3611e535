"""The front of the broker: takes a decoded request to the handler of its API and the handler's response back to the connection.

handlers/            one module per API that the broker serves
access/              what each API needs of its client, and the checks in front of the handlers, with an authorizer
quotas/              holds clients to their quotas, in front of the handlers, while there are any
acls                 ACLs and filters, as the requests about ACLs have them
delegation_tokens    which clients may have tokens, and the principals of their requests
configs/             what the handlers of configurations share: resources, described settings, loggers
registry             the APIs with their versions, handlers and messages
releases             which versions each release of Kafka has
as_release           refuses requests that such a release does not know
parts                a request of which some elements are refused: shared by access and quotas
gate                 takes requests until the client has logged in, at a SASL listener
dispatch             request in, response out: decodes, calls the handler, turns errors into responses, counts
context              what a handler gets beside the request
new_partitions       the wait until the leaders of new partitions know them
deferred             responses that wait for an operation in a purgatory
pieces               large requests, cut into small ones whose responses are joined
error_response       the response that carries one error in the form of any API
error_counts         which fields of a response are error codes, for the metrics
response_memo        encoded responses, such as those to Metadata, kept for as long as the metadata stays the same
metadata_topics, nodes          what Metadata, DescribeCluster, DescribeTopicPartitions and FindCoordinator share
produce/, fetch/     the ways of a Produce; the responses to a Fetch
validations          the threads in which produced batches are checked that take long; `context` has them
committed_offsets    which offsets of an OffsetCommit or a TxnOffsetCommit can be committed, and the responses by topics
seen_clients         the clients of a broker as people see them, and what Kafka 4 would refuse them
document             writes docs/apis.md from the texts of the handlers
"""
