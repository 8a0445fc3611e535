"""The test kit: brokers for the tests of other programs."""
