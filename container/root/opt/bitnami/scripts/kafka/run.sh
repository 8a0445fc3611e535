#!/bin/sh
# Where files written for Bitnami's image start the broker.
exec pybroker container "$@"
