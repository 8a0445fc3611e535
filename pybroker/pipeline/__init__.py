"""Jobs for Spark over a broker's data, run by `pybroker spark JOB` or as functions of a SparkSession.

What they need (PySpark, pyarrow, a Java, a client) comes with `pip install 'pybroker[spark]'` and is imported when a job runs.
"""
