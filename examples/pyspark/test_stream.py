"""PySpark: a query of Structured Streaming writes an invoice for each order, and goes on after a restart of its broker.

pip install pyspark==4.2.0 pytest     # beside pybroker; Spark needs Java, 17 or 21
export PYSPARK_SUBMIT_ARGS="--packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0 pyspark-shell"
pytest examples/pyspark
"""

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, concat, lit

TIMEOUT_S = 120


@pytest.fixture(scope="session")
def spark():
    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    yield session
    session.stop()


@pytest.fixture
def kafka(kafka_broker, kafka_clean):
    """Give each test the two topics, with nothing in them."""
    for topic in ("orders", "invoices"):
        kafka_broker.create_topic(topic)
    return kafka_broker


def bill(spark, bootstrap, checkpoint):
    """Write invoices of all orders that are there and have none."""
    kafka = {"kafka.bootstrap.servers": bootstrap}
    orders = spark.readStream.format("kafka").options(**kafka, subscribe="orders", startingOffsets="earliest").load()
    invoices = orders.select(concat(lit("invoice of "), col("value").cast("string")).alias("value"))
    query = (
        invoices.writeStream.format("kafka")
        .options(**kafka, topic="invoices", checkpointLocation=str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(TIMEOUT_S)


def values(kafka):
    return [record.value for record in kafka.consume("invoices")]


def test_the_query_goes_on_where_it_was_after_a_crash_of_the_broker(spark, kafka, tmp_path):
    kafka.produce("orders", b"order 1", b"order 2")
    bill(spark, kafka.bootstrap, tmp_path)
    kafka.kill()
    kafka.restart()
    kafka.produce("orders", b"order 3")
    bill(spark, kafka.bootstrap, tmp_path)
    assert values(kafka) == [b"invoice of order 1", b"invoice of order 2", b"invoice of order 3"]


def test_an_order_gets_one_invoice_although_the_leader_moves(spark, kafka, tmp_path):
    moved = kafka.faults.add(api="Produce", topic="invoices", error="NOT_LEADER_OR_FOLLOWER", times=2)
    kafka.produce("orders", b"order 1")
    bill(spark, kafka.bootstrap, tmp_path)
    assert values(kafka) == [b"invoice of order 1"]
    assert moved.count == 2
