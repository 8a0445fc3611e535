"""The example of tests with Structured Streaming, in a pytest of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.testing_kit.test_docs import EXAMPLES, run_examples
from testing.process.class_archive import jvm_options

pytestmark = pytest.mark.spark


def test_the_example_with_pyspark_passes(tmp_path: Path) -> None:
    from pybroker.spark.connector import connector_jars  # noqa: PLC0415 (not every run of the tests comes here)

    submit = (
        f"--jars {','.join(map(str, connector_jars()))} pyspark-shell"  # in place of --packages, which downloads them each time
    )
    files = [*(EXAMPLES / "pyspark").glob("*.py")]
    run_examples(files, tmp_path, PYSPARK_SUBMIT_ARGS=submit, SPARK_SUBMIT_OPTS=jvm_options())
