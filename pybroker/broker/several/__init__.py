"""Several brokers of one machine, each a process of its own, under one parent: `pybroker start --brokers N`.

ports         no two brokers, and no other program, have the same port
settings      what the settings of each broker are, and which data directories fit
child         the process of one broker, which is started again when it has ended
parent        owns the metadata store and the brokers, from the first start to the last stop
"""
