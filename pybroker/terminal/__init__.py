"""The work of the commands of people for a cluster of Kafka's protocol: `pybroker topics`, `groups`, `produce` and others.

The modules of `pybroker/cli/` parse the command line; these talk to the cluster, by `pybroker/tools/` and `spark/wire/`.

profiles        which cluster a command means: the address, and the settings of the client
session         clients of that cluster, and its errors as one line
output          tables, lines of JSON, colours
numbers         numbers, sizes and times as people write and read them
topics          what is known of topics, and their changes
brokers         the brokers, their directories and the release of Kafka that they are like
groups, configs, transactions    the same of groups, of settings and quotas, of transactions
wire            the client for records
reading, writing, transaction, membership    records in both directions; a producer's transactions; a group's member
consuming       one run of `pybroker consume`
exporting, importing, export_folder    `pybroker export` and `import`, and the folder between them
places, formats, lines, escapes    places in partitions, records and their input as people write them
overview        the whole cluster on one screen
"""
