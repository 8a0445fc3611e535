#!/bin/sh
# Chromium on Debian, for the tests of the page. Where it cannot be installed, these tests are skipped.
set -eu

if command -v chromium >/dev/null || [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    exit 0
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -qq -y --no-install-recommends chromium fonts-dejavu-core >/dev/null
