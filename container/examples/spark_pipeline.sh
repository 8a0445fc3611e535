#!/bin/sh
# The pipeline over the broker of docker-compose.yml: load into a topic, the topic into Parquet and checked, a report about it.
# Run again it archives what is new. The results are in the volume `lake`.
set -eu
bootstrap=$1
pybroker spark generate --bootstrap-server "$bootstrap" --topic orders --partitions 4 --count 10000 --size 200 --seed 7
pybroker spark archive /lake/orders --bootstrap-server "$bootstrap" --topic orders
pybroker spark archive /lake/orders --verify
pybroker spark report /lake/report --bootstrap-server "$bootstrap" --topic orders --json
