"""The immutable image of the cluster, the store that keeps it, and the controller that changes it.

controller           the only place that changes the cluster
following            how the image and the parts of the broker follow the store, in slices
image, entries       the cluster's state; the same as entries of the store
members, member_entries    the brokers of the cluster; the same as entries
membership           makes a broker live
control              a broker of a cluster: its session, the elections of the controller
elections, partition_commits    which replica leads; commits what was planned for partitions
election_counts      how often leaders were elected, for the metrics
controllers          how far each controller is, where the settings name several
isr_changes, isr_commits        another set of in-sync replicas, which a leader requests; how it is committed
store/               where the entries are kept: in memory, or in a SQLite file
kraft/               the metadata log of a KRaft Kafka: read when its directory is adopted, and written
plan                 what an operation wants to change in the store
new_topic, more_partitions, placement    the plans of topics and partitions, and which brokers get the replicas
config_changes, features                 the plans of settings and of feature levels
acl_entries, acl_changes                 ACLs as entries of the store; their creation and deletion
scram_users                              the credentials of users, and the plans of their changes
delegation_tokens                        the tokens of users, and their changes
quota_entries, quota_changes             quotas as entries of the store; their changes
ordered_changes                          how ACLs and quotas are committed: each change after the one before
internal_topics, names   the settings of the coordinators' topics; which topic names are valid
leader_epochs, producer_ids    the numbers that must never be used twice
directories          the log directories that a broker has used
uninterrupted        work that continues when the request that waits for it is cancelled
"""
