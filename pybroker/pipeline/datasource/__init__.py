"""`spark.read.format("pybroker")`: segment files as a table, without a broker in between.

from pybroker.pipeline.datasource import register
register(spark)
spark.read.format("pybroker").option("topic", "events").load("/var/lib/pybroker")

options       what may be asked for
snapshot      what lies in the directories at one moment, and what of it is committed     files, transactions
plan, filters which ranges of which segments a query needs                                stream
reading       one range into rows of `records.columns`
arrow         rows into Arrow record batches
source        the classes that Spark calls
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"


def register(spark: SparkSession) -> None:
    """Make the format known to a session, and let Spark hand filters to it."""
    from pybroker.pipeline.datasource.source import PybrokerDataSource  # noqa: PLC0415  (needs PySpark)

    spark.conf.set(PUSHDOWN, "true")
    spark.dataSource.register(PybrokerDataSource)
