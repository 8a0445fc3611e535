#!/bin/sh
# kafka-server-start.sh FILE [--override NAME=VALUE]... : a broker with the properties of FILE; variables win over them.
case "${1-}" in
    -daemon)
        echo "kafka-server-start.sh: -daemon is not supported: the broker is the container's process" >&2
        exit 2
        ;;
    "" | -*)
        echo "usage: kafka-server-start.sh FILE [--override NAME=VALUE]..." >&2
        exit 2
        ;;
esac
file=$1
shift
exec env --block-signal=TERM --block-signal=INT pybroker container --config "$file" "$@"
