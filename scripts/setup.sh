#!/usr/bin/env bash
# Sees to what Heddle needs of this machine. As root it installs what is missing; for everybody else it says what to ask for.
#
#   scripts/setup.sh [--quiet]
#
# Exit status: 0  everything is there
#              3  Heddle can be built and can simulate, but not run live
#              1  Heddle cannot be built
set -euo pipefail
cd "$(dirname "$0")/.."

quiet=false
case "${1-}" in
    '') ;;
    --quiet) quiet=true ;;
    *) sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac

# Set by the checks below.
cannot_build=false
cannot_run_live=false

say() { $quiet || printf '%-18s %s\n' "$1" "$2"; }
# What is wrong, then how to fix it, a line each.
wrong() {
    printf '%-18s %s\n' "$1" "$2" >&2
    shift 2
    local fix
    for fix in "$@"; do printf '%-18s   %s\n' '' "$fix" >&2; done
}
as_root() { [[ $(id -u) -eq 0 ]]; }

# command:package:what for
needed=(
    cc:gcc:build
    iperf3:iperf3:live
    ip:iproute2:live
    ping:iputils-ping:live
    # Tests need these, nothing else does: an ordinary user's hosts with several users, uplinks, images, an election with somebody else's VRRP, containers.
    newuidmap:uidmap:tests
    pasta:passt:tests
    busybox:busybox-static:tests
    keepalived:keepalived:tests
    crun:crun:tests
)

missing() {
    local entry program package purpose
    for entry in "${needed[@]}"; do
        IFS=: read -r program package purpose <<<"$entry"
        if [[ $purpose == tests ]] && ! as_root; then continue; fi
        PATH=$PATH:/usr/sbin:/sbin command -v "$program" >/dev/null || echo "$package:$purpose"
    done
    # A compiler without the C library's start files cannot link.
    if command -v cc >/dev/null && [[ $(cc -print-file-name=crt1.o 2>/dev/null) == crt1.o ]]; then
        echo libc6-dev:build
    fi
}

install() {
    local log
    log=$(mktemp)
    say packages "installing $*"
    export DEBIAN_FRONTEND=noninteractive
    if ! { apt-get update && apt-get install -y --no-install-recommends "$@"; } >"$log" 2>&1 </dev/null; then
        tail -n 15 "$log" >&2
    fi
    rm -f "$log"
}

packages() {
    local lacking names
    mapfile -t lacking < <(missing)
    if [[ ${#lacking[@]} -gt 0 ]] && as_root && command -v apt-get >/dev/null; then
        install "${lacking[@]%%:*}"
        mapfile -t lacking < <(missing)
    fi
    if [[ ${#lacking[@]} -eq 0 ]]; then
        say packages ok
        return
    fi
    names=${lacking[*]%%:*}
    local fix="ask for:  sudo apt-get install $names"
    if as_root; then fix="install them, or what your distribution calls them"; fi
    wrong packages "missing: $names" "$fix"
    if [[ " ${lacking[*]} " == *:build\ * ]]; then cannot_build=true; fi
    if [[ " ${lacking[*]} " == *:live\ * ]]; then cannot_run_live=true; fi
}

rust() {
    local wanted have
    wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
    if ! have=$(rustc --version 2>/dev/null) || ! cargo --version >/dev/null 2>&1; then
        wrong rust "cargo is missing or does not work" "install it from https://rustup.rs, no root needed; Rust $wanted or newer"
        cannot_build=true
        return
    fi
    have=$(cut -d' ' -f2 <<<"$have")
    if [[ $(printf '%s\n' "$wanted" "${have%%-*}" | sort -V | head -n1) != "$wanted" ]]; then
        wrong rust "$have is too old, $wanted or newer is needed" "rustup update stable"
        cannot_build=true
        return
    fi
    say rust "ok ($have)"
}

opens() { (exec 3<>"$1") 2>/dev/null; }

tun() {
    local device=/dev/net/tun
    if ! [[ -e $device ]] && as_root; then
        modprobe tun 2>/dev/null || true
        [[ -e $device ]] || { mkdir -p /dev/net && mknod -m 0666 $device c 10 200 2>/dev/null; } || true
    fi
    if opens $device; then
        say "$device" ok
        return
    fi
    cannot_run_live=true
    if ! [[ -e $device ]]; then
        wrong "$device" "is missing; a host's interface is a TAP" "ask for:  sudo modprobe tun" \
            "in a container:  docker run --device /dev/net/tun ..."
    elif as_root; then
        wrong "$device" "cannot be opened, even by root" "in a container:  docker run --device /dev/net/tun ..."
    else
        wrong "$device" "may not be opened by $(id -un)" \
            "ask for:  sudo chmod 0666 $device    (the mode that systemd's udev rules give it)"
    fi
}

setting() { [[ -r /proc/sys/$1 && $(<"/proc/sys/$1") == "$2" ]]; }

namespaces() {
    if as_root; then
        if unshare --net true 2>/dev/null; then
            say namespaces ok
        else
            cannot_run_live=true
            wrong namespaces "root may not make network namespaces here" "in a container:  docker run --cap-add SYS_ADMIN --cap-add NET_ADMIN ..."
        fi
        return
    fi
    if unshare --user --map-root-user --net true 2>/dev/null; then
        say namespaces ok
        return
    fi
    cannot_run_live=true
    local fix="ask the administrator why 'unshare --user --map-root-user --net true' fails"
    if setting kernel/apparmor_restrict_unprivileged_userns 1; then
        fix="ask for:  sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0"
    elif setting kernel/unprivileged_userns_clone 0; then
        fix="ask for:  sudo sysctl kernel.unprivileged_userns_clone=1"
    elif setting user/max_user_namespaces 0; then
        fix="ask for:  sudo sysctl user.max_user_namespaces=15000"
    fi
    wrong namespaces "$(id -un) may not make user namespaces" "$fix" "or run it as root"
}

packages
rust
tun
namespaces

if $cannot_build; then
    echo "Heddle cannot be built yet: see above." >&2
    exit 1
fi
if $cannot_run_live; then
    echo "Heddle can simulate here, but not run live yet: see above." >&2
    exit 3
fi
