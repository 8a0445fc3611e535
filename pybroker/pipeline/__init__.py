"""Spark jobs over a broker's data, which run as `pybroker spark JOB` or as functions that take a SparkSession.

`pip install 'pybroker[spark]'` brings what they need (PySpark, pyarrow, a Java, a client). It is imported only when a job runs.
"""
