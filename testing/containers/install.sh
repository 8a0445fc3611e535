#!/bin/sh
# What the container tests need on Debian: an engine, unless Docker's daemon responds, what makes the base image, and Prometheus.
#
#   install.sh [engine]      with `engine`, without Prometheus
set -eu

[ "${ENGINE:-}" != none ] || exit 0
wanted="prometheus"
[ "${1:-}" != engine ] || wanted=""
if ! docker info >/dev/null 2>&1; then
    wanted="$wanted podman runc netavark aardvark-dns iptables uidmap slirp4netns fuse-overlayfs debootstrap"
fi
missing=""
for package in $wanted; do
    dpkg-query --show --showformat='${Status}' "$package" 2>/dev/null | grep -q '^install ok installed$' || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "not installed:$missing; tests that need one of them are skipped, or fail where an engine cannot pull its base image"
    exit 0
fi
echo "installing$missing"
# Nothing that is installed here is to run by itself: no Prometheus, no timers.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
    trap 'rm -f "$policy"' EXIT
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# shellcheck disable=SC2086
apt-get install -y -qq -o DPkg::Lock::Timeout=300 --no-install-recommends $missing >/dev/null
