#!/usr/bin/env bash
# Our bonds and others': the bonding driver of a real Linux, in a guest (scripts/uml.sh), and Open vSwitch.
#
#   benches/linux-bond.sh differential [FRAMES] [SEED]   one stream of frames through the driver and through Heddle, member by member
#   benches/linux-bond.sh modes [MEMBERS]                every mode of Linux against Heddle: traffic both ways, each member pulled
#   benches/linux-bond.sh lacp [RUNS] [SECONDS]          LACP with Linux and with Open vSwitch: how soon it is up, whether it stays, pulls
#
# Run it as root: everything happens in a network namespace of its own. It installs what it lacks (Debian), and
# needs a release build of heddle ($HEDDLE is another one); differential needs cargo instead.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
parts=$here/benches/linux-bond
heddle=${HEDDLE:-${CARGO_TARGET_DIR:-$here/target}/release/heddle}

usage() {
    sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
    exit 2
}
case ${1-} in
    differential | modes | lacp) ;;
    *) usage ;;
esac
if [[ -z ${LINUX_BOND_INSIDE-} ]]; then
    # shellcheck source=benches/functions.sh
    source "$here/benches/functions.sh"
    need linux.uml:user-mode-linux modprobe:kmod ovs-vswitchd:openvswitch-switch iperf3:iperf3 jq:jq ethtool:ethtool
    # Built here: inside there is no way to a registry.
    if [[ $1 == differential ]]; then
        cargo build --locked --manifest-path "$here/Cargo.toml" --package heddle-live --example bond_differential
    elif ! [[ -x $heddle ]]; then
        echo "linux-bond.sh: there is no $heddle" >&2
        echo "hint: make build" >&2
        exit 3
    fi
    LINUX_BOND_INSIDE=1 exec unshare --net "$0" "$@"
fi
# shellcheck source=benches/linux-bond/partners.sh
source "$parts/partners.sh"
# shellcheck source=/dev/null
source "$parts/$1.sh"
shift
main "$@"
