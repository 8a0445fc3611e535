"""Where a log begins, by time and by size.

retention           the new start of a log, and the deletion of segments below it
record_retention    the new start to the record
retention_pass      a pass over the logs of a directory
"""
