#!/bin/sh
# Where files written for Bitnami's image start the broker.
exec env --block-signal=TERM --block-signal=INT pybroker container "$@"
