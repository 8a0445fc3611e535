"""Tests of the jobs and the data source on a real Spark."""
