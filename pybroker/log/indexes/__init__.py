"""The indexes of a segment, each a sorted file of entries, rebuilt from the data if it is lost.

entry_file           the common part: a file of entries of one size, appended to at its end
offset_index         from offsets to positions in the data file
time_index           from timestamps to offsets
transaction_index    the aborted transactions
"""
