#!/bin/sh
# Files written for Kafka format its storage before they start it; here the broker does that itself.
case "${1-}" in
    format)
        echo "kafka-storage: nothing to format: the broker makes its data directories itself"
        ;;
    random-uuid)
        head -c 16 /dev/urandom | base64 | tr '+/' 'Aa' | cut -c 1-22
        ;;
    *)
        echo "kafka-storage: only format and random-uuid are supported, not ${1-nothing}" >&2
        exit 2
        ;;
esac
