"""The only access to the operating system's files, and what may run out there: space, descriptors, memory maps.

filesystem    every call that touches a file; tests put a failing disk in its place
open_files    how many data files are open at once
room          how much space the volume of a log directory has for records
reserves      space that is released when a small file finds its volume full
names         the names of data files

Imports nothing else of the log.
"""
