#!/bin/sh
# The first process of a guest of User-Mode Linux without an image. It finds what to do in the folder of `guest`, which the kernel's command line has as HEDDLE_GUEST.

export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/run TMPDIR=/run TERM=dumb
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev 2>/dev/null
exec </dev/null >/dev/tty0 2>&1
# All else is the machine's, and can only be read. The network's own folder may be below /run.
runtime=${HEDDLE_GUEST%/guests/*}
mount -t tmpfs tmpfs /run
mkdir -p "$runtime" 2>/dev/null
mount -t hostfs -o "$runtime" hostfs "$runtime"
mkdir -p /run/modules/lib/modules
ln -s "/usr/lib/uml/modules/$(uname -r)" /run/modules/lib/modules/
modprobe -d /run/modules virtio_net || echo "heddle: no module virtio_net for Linux $(uname -r) of User-Mode Linux" >&2
ip link set lo up
# What is to be in place before the command: devices, addresses, names.
# shellcheck source=/dev/null
. "$HEDDLE_GUEST/network"
sh "$HEDDLE_GUEST/run"
status=$?
# Whoever supervises the machine reads it.
echo "$status" >"$HEDDLE_GUEST/status"
if [ "$status" -ne 0 ]; then echo "heddle: the guest's command ended with status $status" >&2; fi
echo o >/proc/sysrq-trigger
sleep 10
