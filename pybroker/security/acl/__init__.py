"""Access control lists: which client may do what to which resource, by Kafka's rules.

binding      an ACL and its words; its text, from and to the metadata store
filters      the selection of ACLs, in Describe- and DeleteAcls
acls         all ACLs of a cluster at one moment, and what they decide
authorizer   decides with super users and the default, keeps decisions, and writes the audit log
"""
