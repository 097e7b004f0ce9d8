#!/usr/bin/env bash
# Runs a command in a guest with a Linux kernel of its own: User-Mode Linux, an ordinary process that needs neither KVM nor an image.
#
#   scripts/uml.sh [OPTION...] -- COMMAND [ARGUMENT...]
#
#   --tap NAME        a network device of the guest, vec0, vec1, ..., for each TAP of the calling network namespace
#   --vhost-user SOCKET  the same by vhost-user: eth0, eth1, ... (modules virtio_net and what it needs are loaded)
#   --share FOLDER    the one folder that the guest may write to; it has the same path there
#   --module NAME     loads a module of the guest's kernel, and what it needs
#   --memory SIZE     128M unless said otherwise
#
# The guest sees this machine's files, to read only, and runs COMMAND as root with standard input and output passed through (what is
# typed is not echoed). It ends with COMMAND, whose exit status is this script's. To end it before, end this script.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

usage() {
    sed -n '2,13s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

memory=128M share='' devices=() modules=() sockets=0 temporary=''
while [[ $# -gt 0 ]]; do
    case $1 in
        --tap) devices+=("vec${#devices[@]}:transport=tap,ifname=${2:?},depth=128"); shift 2 ;;
        --vhost-user)
            # Its memory is a file, which the other side accepts as shared memory only.
            devices+=("virtio_uml.device=${2:?}:1:$((++sockets))") modules+=(virtio_net) temporary=/dev/shm
            shift 2 ;;
        --share) share=$(realpath -e "${2:?}"); shift 2 ;;
        --module) modules+=("${2:?}"); shift 2 ;;
        --memory) memory=${2:?}; shift 2 ;;
        --) shift; break ;;
        *) usage ;;
    esac
done
[[ $# -gt 0 ]] || usage
command -v linux.uml >/dev/null || {
    echo "uml.sh: linux.uml is missing" >&2
    echo "hint: apt-get install user-mode-linux kmod" >&2
    exit 3
}

# What the guest shall do goes in by files, since a kernel's command line is short and has its own quoting.
work=$(mktemp -d)
guest=
# shellcheck disable=SC2317,SC2329  # Called by the trap.
finish() {
    # It ignores SIGTERM. The guest's own processes are in its session.
    if [[ -n $guest ]]; then { kill -KILL -- "-$guest" && wait "$guest"; } 2>/dev/null || true; fi
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 143' TERM
trap 'exit 130' INT
printf '%q ' "$@" >"$work/command"
printf '%s\n' "${modules[@]}" >"$work/modules"
printf '%s' "$share" >"$work/share"
pwd >"$work/folder"

# `exec 3<&0`: a command in the background would read from /dev/null.
exec 3<&0
TMPDIR=${temporary:-$work} setsid linux.uml mem="$memory" uml_dir="$work" umid=guest root=/dev/root rootfstype=hostfs rootflags=/ ro \
    init="$here/uml-init.sh" "UML_WORK=$work" "PATH=$PATH" con=null con0=null,fd:2 con1=fd:3,fd:1 quiet loglevel=1 "${devices[@]}" \
    >&1 2>"$work/log" &
guest=$!
wait "$guest" || true
guest=
if ! [[ -s $work/status ]]; then
    echo "uml.sh: the guest ended before its command did" >&2
    tail -n 20 "$work/log" >&2
    exit 1
fi
exit "$(<"$work/status")"
