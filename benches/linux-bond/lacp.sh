# LACP with Linux's bonding driver and with Open vSwitch, at the fast rate. To be sourced.
# shellcheck shell=bash
# shellcheck disable=SC2154

members=2

main() {
    local runs=${1:-5} seconds=${2:-600}
    make_taps $members
    local i
    for ((i = 0; i < members; i++)); do make_pair "m$i" "o$i"; done
    write_file
    "$heddle" up --no-wait "$work/network.fabric.yaml" >"$work/up.log" 2>&1 || { cat "$work/up.log" >&2; fail 'heddle up'; }
    local address mac
    read -r address mac <<<"$(address_of guest)"
    start_guest $members "$address" "$mac" mode 802.3ad miimon 10 lacp_rate fast xmit_hash_policy layer3+4
    start_ovs
    read -r address mac <<<"$(address_of ovs)"
    vsctl add-br br0 -- set bridge br0 datapath_type=netdev "other_config:hwaddr=$mac" "other_config:disable-in-band=true"
    vsctl add-bond br0 bond0 o0 o1 lacp=active bond_mode=balance-tcp other_config:lacp-time=fast
    ip addr add "$address" dev br0
    ip link set br0 up
    local partner
    for partner in linux ovs; do soon "$partner" "$runs"; done
    for partner in linux ovs; do anew "$partner" "$runs"; done
    for partner in linux ovs; do survive "$partner"; done
    stay "$seconds"
}

write_file() {
    cat >"$work/network.fabric.yaml" <<'FILE'
name: partners
nodes:
  h1: host
  guest: { kind: host, devices: [t0, t1] }
  ovs: { kind: host, devices: [m0, m1] }
  s1: switch
link-defaults: { rate: 100Mbit, delay: 20us, queue: 250 }
links:
  - { between: [h1, s1], rate: 1Gbit }
  - between: [guest, s1]
  - between: [guest, s1]
  - between: [ovs, s1]
  - between: [ovs, s1]
bonds:
  - { host: guest, mode: 802.3ad, lacp_rate: fast, xmit_hash_policy: layer3+4 }
  - { host: ovs, mode: 802.3ad, lacp_rate: fast, xmit_hash_policy: layer3+4 }
FILE
}

host_of() { if [[ $1 == linux ]]; then echo guest; else echo ovs; fi; }

# plug PARTNER MEMBER on|off
plug() {
    if [[ $1 == linux ]]; then
        cable "$2" "$3"
    elif [[ $3 == on ]]; then
        ip link set "o$2" up
    else
        ip link set "o$2" down
    fi
}

# How many ends the partner has seen distribute: its own, and Heddle's as announced.
partner_ends() {
    if [[ $1 == linux ]]; then
        in_guest "grep -c 'port state: 63' /proc/net/bonding/bond0"
    else
        appctl lacp/show bond0 | grep -c 'state: .*synchronized collecting distributing' || true
    fi
}

# Until all members distribute, both ways, as both ends say. Prints ms since START.
await_all() {
    local partner=$1 start=$2 host
    host=$(host_of "$partner")
    if [[ $partner == linux ]]; then
        # The guest looks itself: asking it for each look would take too long.
        in_guest "until [ \$(grep -c 'port state: 63' /proc/net/bonding/bond0) = $((2 * members)) ]; do sleep 0.01; done"
    fi
    until [[ $(partner_ends "$partner") -eq $((2 * members)) ]]; do
        if (($(now_ms) - start > 20000)); then fail "$partner: not distributing after 20 s: $(heddle_why "$host")"; fi
        sleep 0.01
    done
    local both=$(($(now_ms) - start))
    until [[ $(heddle_sending "$host") -eq $members ]]; do sleep 0.01; done
    echo "$both"
}

# soon PARTNER RUNS: all cables out until nobody knows of the other, then in at once.
soon() {
    local run i start times=()
    await_all "$1" "$(now_ms)" >/dev/null
    for ((run = 0; run < $2; run++)); do
        for ((i = 0; i < members; i++)); do plug "$1" "$i" off; done
        sleep 8
        start=$(now_ms)
        for ((i = 0; i < members; i++)); do plug "$1" "$i" on; done
        times+=("$(await_all "$1" "$start")")
    done
    echo "$1: all $members members distribute, as both ends say, ms after their cables were put in: ${times[*]}"
}

# anew PARTNER RUNS: our end goes and comes while the partner's bond stays up.
anew() {
    local run start times=()
    for ((run = 0; run < $2; run++)); do
        "$heddle" down --all >/dev/null
        sleep 8
        start=$(now_ms)
        "$heddle" up --no-wait "$work/network.fabric.yaml" >/dev/null 2>&1
        times+=("$(await_all "$1" "$start")")
    done
    echo "$1: the same, ms after our end was started: ${times[*]}"
}

# survive PARTNER: each member's cable is out for a second and a half while h1 pings.
survive() {
    local i sent lost gap heard where
    for ((i = 0; i < members; i++)); do
        await_all "$1" "$(now_ms)" >/dev/null
        heard=$(guest_heard)
        start_pings h1 "$(host_of "$1")" 5
        plug "$1" "$i" off
        sleep 1.5
        plug "$1" "$i" on
        wait "$pings" || true
        read -r sent lost gap <<<"$(count_pings)"
        where=''
        # What the guest has heard and we have not, it lost itself.
        if [[ $1 == linux ]]; then where=" ($((sent - $(guest_heard) + heard)) on their way to it)"; fi
        echo "$1: member $i pulled: $lost of $sent pings lost$where, longest gap $gap ms"
    done
}

# What Linux has counted of churn and of links that failed.
churns() {
    in_guest "grep -E 'Churned Count|Failure Count' /proc/net/bonding/bond0 | sort | uniq -c | tr -s ' ' | tr '\n' ';'; echo"
}

# stay SECONDS: looks every second whether all still distribute at both ends of both bonds.
stay() {
    local bad=0 looks=0 partner before after
    for partner in linux ovs; do await_all "$partner" "$(now_ms)" >/dev/null; done
    before=$(churns)
    local end=$(($(now_ms) + $1 * 1000))
    while (($(now_ms) < end)); do
        for partner in linux ovs; do
            looks=$((looks + 1))
            if [[ $(partner_ends "$partner") -ne $((2 * members)) || $(heddle_sending "$(host_of "$partner")") -ne $members ]]; then
                bad=$((bad + 1))
                echo "$partner: not all distribute: $(heddle_why "$(host_of "$partner")")"
            fi
        done
        sleep 1
    done
    after=$(churns)
    echo "stayed for $1 s: $bad of $looks looks found a member that does not distribute"
    if [[ $before == "$after" ]]; then echo 'Linux counted no churn and no failed link meanwhile'; else echo "Linux: $before then $after"; fi
    [[ $bad -eq 0 && $before == "$after" ]]
}
