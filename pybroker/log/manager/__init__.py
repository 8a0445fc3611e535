"""All logs of a broker, from its start to its stop.

manager      create, get, delete; the passes at intervals; the stop
loading      the start's way through the directories
opening      opening many logs, in threads if they must be recovered
passes       the work on all logs that the broker does at intervals
room_pass    which directories have room, and the directory of a new log
retention_pass     a pass of retention over the logs of a directory
checkpoint_pass    collecting the offsets of a directory's logs for its checkpoints, in slices
directory_moves    moving logs to another directory
"""
