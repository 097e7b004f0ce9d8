# What the experiments of linux-bond.sh have in common: the guest, Open vSwitch, Heddle's network. To be sourced.
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154  # Variables of the scripts around it.

modules=(bonding veth act_mirred cls_matchall sch_ingress)
work=$(mktemp -d)
export XDG_RUNTIME_DIR=$work
guest='' ovsdb='' vswitchd=''

# shellcheck disable=SC2317  # Called by the trap.
finish() {
    "$heddle" down --all >/dev/null 2>&1 || true
    if [[ -n $guest ]]; then kill "$guest" 2>/dev/null || true; fi
    if [[ -n $vswitchd ]]; then kill -KILL "$vswitchd" 2>/dev/null || true; fi
    if [[ -n $ovsdb ]]; then kill -KILL "$ovsdb" 2>/dev/null || true; fi
    wait 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM
ip link set lo up

fail() {
    echo "linux-bond.sh: $*" >&2
    exit 1
}

# $EPOCHREALTIME has the locale's comma.
now_ms() {
    local now=${EPOCHREALTIME/[.,]/}
    echo $((now / 1000))
}

# uml OPTION...: a guest with the modules that all of this needs.
uml() {
    local options=() module
    for module in "${modules[@]}"; do options+=(--module "$module"); done
    "$here/scripts/uml.sh" "${options[@]}" "$@"
}

# Makes the TAPs t0, t1, .., without a guest yet.
make_taps() {
    local i
    for ((i = 0; i < $1; i++)); do
        ip tuntap add "t$i" mode tap
        echo 1 >"/proc/sys/net/ipv6/conf/t$i/disable_ipv6"
        ip link set "t$i" up
    done
}

# start_guest MEMBERS ADDRESS MAC BOND-OPTION...: boots a guest behind t0, t1, .., whose bond0 has that address.
start_guest() {
    local i devices=()
    for ((i = 0; i < $1; i++)); do devices+=(--tap "t$i"); done
    rm -f "$work/commands" "$work/answers"
    mkfifo "$work/commands" "$work/answers"
    uml --memory 192M "${devices[@]}" -- "$parts/guest.sh" "$@" <"$work/commands" >"$work/answers" &
    guest=$!
    exec 5>"$work/commands" 6<"$work/answers"
    answer || fail "the guest did not come up"
}

# Prints what the guest answers; its status.
answer() {
    local line
    while read -r -t 60 -u 6 line; do
        case $line in
            '== ready' | '== 0') return 0 ;;
            '== '*) return 1 ;;
            *) echo "$line" ;;
        esac
    done
    return 1
}

# in_guest COMMAND: runs it there and prints what it says.
in_guest() {
    echo "$1" >&5
    answer
}

stop_guest() {
    exec 5>&- 6<&-
    kill "$guest" 2>/dev/null || true
    wait "$guest" 2>/dev/null || true
    guest=''
}

# Starts Open vSwitch with a database of its own and the datapath in user space.
start_ovs() {
    export OVS_RUNDIR=$work OVS_LOGDIR=$work OVS_DBDIR=$work
    ovsdb-tool create "$work/conf.db" /usr/share/openvswitch/vswitch.ovsschema
    ovsdb-server --no-chdir --remote="punix:$work/db.sock" --unixctl="$work/db.ctl" "$work/conf.db" >/dev/null 2>"$work/db.log" &
    ovsdb=$!
    until [[ -S $work/db.sock ]]; do sleep 0.05; done
    vsctl --no-wait init
    ovs-vswitchd --no-chdir --unixctl="$work/vswitchd.ctl" "unix:$work/db.sock" >/dev/null 2>"$work/vswitchd.log" &
    vswitchd=$!
}

vsctl() { ovs-vsctl --db="unix:$work/db.sock" "$@"; }
appctl() { ovs-appctl -t "$work/vswitchd.ctl" "$@"; }

# Makes a veth pair without offloads, which the datapath in user space does not know of.
make_pair() {
    local device
    ip link add "$1" type veth peer name "$2"
    for device in "$1" "$2"; do
        echo 1 >"/proc/sys/net/ipv6/conf/$device/disable_ipv6"
        ethtool -K "$device" tx off rx off gso off tso off gro off >/dev/null 2>&1 || true
        ip link set "$device" up
    done
}

# address_of HOST: as the fabric has it.
address_of() {
    "$heddle" show nodes "$work/network.fabric.yaml" -o json | jq -r --arg name "$1" '.[] | select(.name == $name) | "\(.ipv4) \(.mac)"'
}

# start_pings HOST ADDRESS SECONDS: one every 5 ms from one of our hosts.
start_pings() {
    "$heddle" exec "$1" -- ping -4 -D -n -i 0.005 -w "$3" "$2" >"$work/pings" 2>&1 &
    pings=$!
    sleep 1
}

# How many pings the guest has heard so far.
guest_heard() {
    in_guest "awk '/^Icmp:/ { heard = \$10 + 0 } END { print heard }' /proc/net/snmp"
}

# Prints of pings that have ended (wait "$pings"): sent, lost, longest time without an answer in ms.
count_pings() {
    awk '/icmp_seq=/ { time = substr($1, 2) + 0; if (last && time - last > gap) gap = time - last; last = time }
        /packets transmitted/ { sent = $1; lost = $1 - $4 }
        END { printf "%d %d %.0f\n", sent, lost, gap * 1000 }' "$work/pings"
}

# How many members of our end towards a partner send.
heddle_sending() {
    "$heddle" show bonds -o json | jq --arg partner "$1" '[.[] | select(.to == $partner and .sends == "yes")] | length'
}

# What is said of the members towards a partner that do not send.
heddle_why() {
    "$heddle" show bonds -o json | jq -r --arg partner "$1" '.[] | select(.to == $partner and .sends != "yes") | "\(.member): \(.why)"'
}

# cable MEMBER on|off: between the guest and us, at both ends at once.
cable() {
    local state=up
    if [[ $2 == off ]]; then state=down; fi
    echo "ip link set p$1 $state" >&5
    ip link set "t$1" carrier "$2"
    answer
}
