"""The log directories, and logs that come to them, move between them and leave them.

directory          one directory: its lock, its thread, whether its disk works
claims             which of the configured directories this broker may use
directory_moves    moving logs to another directory
removals           removing what was deleted
strays             the names of partitions' directories, and setting one aside
"""
