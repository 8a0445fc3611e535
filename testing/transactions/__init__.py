"""A proof that transactions are exact: what clients did and saw is recorded, and checked as a whole.

history   what writers wrote and how their transactions ended, what readers read, and the last stable offsets that were seen
checker   what must be true of a history, whichever processes, clocks and disks it comes from
isolation  the records that a consumer with `read_committed` hands out of fetched batches
"""
