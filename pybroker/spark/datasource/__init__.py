"""`spark.read.format("pybroker")`: segment files as a table, without a broker in between.

from pybroker.spark.datasource import register
register(spark)
spark.read.format("pybroker").option("topic", "events").load("/var/lib/pybroker")

module                         what it does
options                        checks the options of a query
snapshot, files, transactions  lists the directories at one moment, and which part of them is committed
plan, filters, stream          chooses the ranges of segments that a query needs
reading                        turns a range into rows of `spark.columns`
arrow                          turns rows into Arrow record batches
source                         has the classes that Spark calls
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"


def register(spark: SparkSession) -> None:
    """Register the format in a session, and let Spark hand filters to it."""
    from pybroker.spark.datasource.source import PybrokerDataSource

    spark.conf.set(PUSHDOWN, "true")
    spark.dataSource.register(PybrokerDataSource)
