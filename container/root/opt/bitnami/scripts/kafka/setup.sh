#!/bin/sh
# Nothing to set up: the broker reads the variables itself.
exit 0
