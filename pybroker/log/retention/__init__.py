"""Where a log begins: by time, by size, and as DeleteRecords wants it.

retention           the new start of a log, and the deletion of segments below it
record_retention    the new start to the record
log_start           beginning a log later
"""
