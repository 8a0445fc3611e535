"""Reports what is in the topics of a cluster: the numbers of each partition, and a page with pictures.

job              runs the report: a Spark task for each partition
plan             chooses the offsets to read
reading          reads a partition
counting, tally  count batches and records
keys             counts keys, exactly or with a known error
task_progress    carries the progress of the tasks to the driver
summary          adds up topics, for JSON and for people
page, pictures   write the page and draw its pictures
"""
