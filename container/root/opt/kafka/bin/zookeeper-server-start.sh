#!/bin/sh
# Test libraries start a ZooKeeper beside the broker.
echo "zookeeper-server-start: nothing to start: pybroker needs no ZooKeeper"
