"""Spark jobs over a broker's data, which run as `pybroker spark JOB` or as functions that take a SparkSession.

`pip install '.[spark]'` in a clone brings what they need (PySpark, pyarrow, a Java, a client). It is imported inside a function,
where a job needs it. So without the extra the command line names what is missing, and the unit tests run.

The folders, each with a map of its own:

archive/        copies topics to Parquet
replay/         writes an archive back to topics
mirror/         copies topics to another cluster
audit/          compares what producers sent with what each tier has
report/         describes what is in topics, with pictures
datasource/     `spark.read.format("pybroker")`: segment files as a table
wire/           a small blocking client, for batches as they lie in the log

Beside them:

generate, doctor            two jobs of one module each: load, and whether everything that the jobs need is there
session, java, connector    Spark: its session, the Java that it runs on, the jars of its Kafka connector
chosen                      the choice of topics, by name or by a regular expression
cluster, writer             a client for everything but records; the client with which tasks write records
html, plots                 the pages and the pictures of jobs
progress, errors, explain   what a job reports while it runs, its error for people, and Spark's errors in one line
columns, _columns_*         records into Arrow columns; the twins that do it
isolation                   which records of transactions a job reads
interrupts                  Ctrl-C held back while threads work
cache                       the folder of what is made or downloaded once
"""
