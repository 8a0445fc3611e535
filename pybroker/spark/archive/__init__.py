"""Copies topics to Parquet: every record once, with every field, and a manifest of what is there.

job         runs the archive: reads topics through Spark, and writes and commits the files of each batch
files       the columns of a file, and what the manifest has about it
manifest    the folder of an archive: its commits, its identity, and what a kill leaves behind
compaction  joins small files
verify      compares the files with the manifest
"""
