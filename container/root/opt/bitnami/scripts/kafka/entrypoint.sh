#!/bin/sh
# The entry point of Bitnami's image: runs what it is given.
exec "$@"
