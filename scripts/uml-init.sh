#!/bin/bash
# The first process of a guest of scripts/uml.sh: makes it ready, runs the command, and turns it off.
# Kernel and command line set UML_WORK, the folder in which the guest finds what to do.

# The kernel's own messages go elsewhere.
exec </dev/tty1 >/dev/tty1 2>&1
stty raw -echo

# The root file system is the machine's own, and can only be read; what changes lies in memory.
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /run
mount -t hostfs -o "$UML_WORK" hostfs "$UML_WORK"
share=$(<"$UML_WORK/share")
if [[ -n $share ]]; then mount -t hostfs -o "$share" hostfs "$share"; fi

export HOME=/run TMPDIR=/run TERM=dumb
release=$(uname -r)
mkdir -p /run/modules/lib/modules
ln -s "/usr/lib/uml/modules/$release" /run/modules/lib/modules/
while read -r module; do
    if [[ -n $module ]]; then modprobe -d /run/modules "$module" || echo "uml: no module $module" >&2; fi
done <"$UML_WORK/modules"
ip link set lo up

cd "$(<"$UML_WORK/folder")" 2>/dev/null || cd /
status=0
bash -c "$(<"$UML_WORK/command")" || status=$?
echo "$status" >"$UML_WORK/status"
sync
echo o >/proc/sysrq-trigger
sleep 10
