"""The log directories, and the names of what lies in them.

directory          one directory: its lock, its thread, whether its disk works
claims             which of the configured directories this broker may use
removals           removing what was deleted
strays             the names of partitions' directories, and setting one aside
"""
