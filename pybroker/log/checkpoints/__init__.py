"""The small files beside the data, each replaced as a whole.

checkpoint           reading and writing such a file
offset_checkpoint    a file with one offset of each log, and the topic ids that Kafka's format has no room for
"""
