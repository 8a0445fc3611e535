#!/bin/sh
# The base image of the Dockerfile, made of Debian's own packages, for machines that reach no registry of images.
#
#   base_image.sh ENGINE NAME      for instance: base_image.sh podman python:3.13-slim-trixie
#
# Debian's release must be in the name and have that Python. What the published image leaves out is left out here too (documentation,
# translations, static libraries), and what it has is where it has it: python and python3 in /usr/local/bin. Needs root and debootstrap.
set -eu

engine=$1 name=$2
python=$(echo "$name" | sed 's/.*:\([0-9.]*\)-.*/\1/')
release=${name##*-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root

debootstrap --variant=minbase --include="ca-certificates,python3,python$python" "$release" "$root" >"$work/log" 2>&1 || {
    tail -n 20 "$work/log" "$root/debootstrap/debootstrap.log" >&2 || true
    exit 1
}
for link in python python3 "python$python"; do
    ln -s "/usr/bin/python$python" "$root/usr/local/bin/$link"
done
cat >"$root/etc/dpkg/dpkg.cfg.d/slim" <<END
path-exclude /usr/share/doc/*
path-include /usr/share/doc/*/copyright
path-exclude /usr/share/info/*
path-exclude /usr/share/locale/*
path-exclude /usr/share/man/*
END
find "$root/usr/share/doc" -type f ! -name copyright -delete
rm -rf "$root"/usr/share/info/* "$root"/usr/share/locale/* "$root"/usr/share/man/* \
    "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/* "$root"/var/cache/debconf/*-old "$root"/var/log/*
find "$root" -xdev -name __pycache__ -prune -exec rm -rf {} +

tar --create --directory "$root" --exclude ./proc/\* --exclude ./sys/\* . |
    "$engine" import --change 'ENV PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin' --change 'CMD ["python3"]' - "$name"
