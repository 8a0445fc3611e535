"""A metadata store in etcd 3.4 or newer, through its JSON gateway, so that several brokers can share it.

store       the contract: commits, listings, watches
following   the watch of the whole namespace: resumed when it breaks, or the difference listed after a compaction
marks       how the outcome of a commit is found when its response was lost
messages    etcd's requests and responses in JSON, from and to the types of the contract
gateway     the calls, over connections that are kept, to the first member that responds
access      the user and the certificates
advice      which setting to correct after a refusal
address     `etcd:http://HOST:PORT[,...][/NAMESPACE]`
"""
