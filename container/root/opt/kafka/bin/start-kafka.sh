#!/bin/sh
# The command of wurstmeister's image, which compose files name.
exec env --block-signal=TERM --block-signal=INT pybroker container "$@"
