"""Checks whether a client may do what its request asks for. Imported by a broker with an authorizer only: without one, no
request passes here.

table       what each API needs: the operation, the resource, and the error of a client that is not allowed
need        a row of the table
asker       one request's questions to the authorizer, and their lines in the audit log
checked     puts the checks of the table in front of a handler
records     Produce and Fetch
topics      Metadata, DescribeTopicPartitions, CreateTopics, DeleteTopics
groups      offsets, descriptions and coordinators of groups
transactions        producer ids and transactions
tokens      delegation tokens of other users
configs     settings, whose resource is of several types
memo        kept responses, which with an authorizer are of one principal
document    the table as Markdown, for docs/security.md
"""
