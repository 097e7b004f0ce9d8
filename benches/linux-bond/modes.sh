# Every mode of Linux's bonding driver against Heddle: traffic both ways, the members used, each of them pulled. To be sourced.
# shellcheck shell=bash
# shellcheck disable=SC2154

# Seconds of TCP each way. Linux moves load between members every 10 s in balance-tlb and balance-alb, and has it all on one until then.
seconds=(3 3 3 3 3 22 22)
# Peers of the guest, so that what is spread by peer has something to spread.
peers=4
names=(balance-rr active-backup balance-xor broadcast 802.3ad balance-tlb balance-alb)

main() {
    local members=${1:-2} mode
    make_taps "$members"
    # Mbit/s, and the share of each member in bytes.
    printf '%-14s | %-24s | %-24s | %s\n' mode 'guest sends' 'guest receives' 'each member pulled: pings lost on their way + answers lost, longest gap'
    for mode in {0..6}; do
        one_mode "$mode" "$members"
    done
}

# write_file MODE MEMBERS
write_file() {
    local i options=''
    case ${names[$1]} in
        balance-xor) options=', xmit_hash_policy: layer3+4' ;;
        802.3ad) options=', xmit_hash_policy: layer3+4, lacp_rate: fast' ;;
    esac
    {
        echo 'name: partners'
        echo 'nodes:'
        for ((i = 1; i <= peers; i++)); do echo "  h$i: host"; done
        local devices
        devices=$(seq -f 't%.0f' -s ', ' 0 $(($2 - 1)))
        echo "  guest: { kind: host, devices: [$devices] }"
        echo '  s1: switch'
        echo 'link-defaults: { rate: 100Mbit, delay: 20us, queue: 250 }'
        echo 'links:'
        for ((i = 1; i <= peers; i++)); do echo "  - { between: [h$i, s1], rate: 1Gbit }"; done
        for ((i = 0; i < $2; i++)); do echo '  - between: [guest, s1]'; done
        echo 'bonds:'
        echo "  - { host: guest, mode: ${names[$1]}$options }"
    } >"$work/network.fabric.yaml"
}

guest_options() {
    echo "mode ${names[$1]} miimon 10"
    case ${names[$1]} in
        balance-xor) echo 'xmit_hash_policy layer3+4' ;;
        802.3ad) echo 'xmit_hash_policy layer3+4 lacp_rate fast' ;;
        balance-tlb) echo 'xmit_hash_policy layer3+4' ;;
    esac
}

one_mode() {
    local mode=$1 members=$2 address mac options out back
    write_file "$mode" "$members"
    "$heddle" up --no-wait "$work/network.fabric.yaml" >"$work/up.log" 2>&1 || { cat "$work/up.log" >&2; fail "${names[$mode]}: heddle up"; }
    read -r address mac <<<"$(address_of guest)"
    read -r -d '' -a options <<<"$(guest_options "$mode")" || true
    start_guest "$members" "$address" "$mac" "${options[@]}"
    until "$heddle" exec h1 -- ping -4 -c 1 -W 1 -q guest >/dev/null 2>&1; do sleep 0.2; done
    if [[ ${names[$mode]} == 802.3ad ]]; then
        await_sending "$members"
    fi
    out=$(traffic "$mode" "$members" -R)
    back=$(traffic "$mode" "$members")
    printf '%-14s | %-24s | %-24s | ' "${names[$mode]}" "$out" "$back"
    pulls "$mode" "$members"
    stop_guest
    "$heddle" down --all >/dev/null
}

# traffic MODE MEMBERS [-R]: TCP between the guest and all peers at once; Mbit/s, and the share of each member.
traffic() {
    local members=$2 i before after jobs=() port
    in_guest "for ((i = 1; i <= $peers; i++)); do iperf3 -s -D -1 -p \$((5200 + i)); done" >/dev/null
    sleep 0.5
    before=$(carried "$members" "${3-}")
    for ((i = 1; i <= peers; i++)); do
        port=$((5200 + i))
        "$heddle" exec "h$i" -- iperf3 -4 -c guest -p "$port" -t "${seconds[$1]}" -P 4 -J ${3+"$3"} >"$work/iperf.$i" 2>&1 &
        jobs+=($!)
    done
    wait "${jobs[@]}" || true
    after=$(carried "$members" "${3-}")
    cat "$work"/iperf.* | jq -s -r '[.[] | .end.sum_received.bits_per_second // 0] | add / 1e6 | round' | tr '\n' ' '
    paste <(echo "$before") <(echo "$after") | awk '{ n[NR] = $2 - $1; all += n[NR] }
        END { for (i = 1; i <= NR; i++) printf "%s%.0f", (i == 1 ? "" : ":"), (all ? 100 * n[i] / all : 0); print " %" }'
}

# Bytes so far on each member's link, a line each: from the guest (-R) or to it.
carried() {
    local from=s1 to=guest
    if [[ $2 == -R ]]; then from=guest to=s1; fi
    "$heddle" show counters -o json | jq -r --arg from "$from" --arg to "$to" '.[] | select(.from == $from and .to == $to) | .bytes'
}

# pulls MODE MEMBERS: takes each member's cable out for a second and a half while a peer pings.
pulls() {
    local members=$2 i sent lost gap heard text=''
    for ((i = 0; i < members; i++)); do
        if [[ ${names[$1]} == 802.3ad ]]; then await_sending "$members"; fi
        heard=$(guest_heard)
        start_pings h1 guest 4
        cable "$i" off
        sleep 1.5
        cable "$i" on
        wait "$pings" || true
        read -r sent lost gap <<<"$(count_pings)"
        heard=$(($(guest_heard) - heard))
        # Of broadcast the guest hears more than were sent.
        text+="${text:+; }$((heard < sent ? sent - heard : 0)) + $((heard < sent ? lost - sent + heard : lost)) of $sent, $gap ms"
    done
    echo "$text"
}

await_sending() {
    local step
    for ((step = 0; step < 100; step++)); do
        if [[ $(heddle_sending guest) -eq $1 ]]; then return; fi
        sleep 0.1
    done
    fail "not all members distribute after 10 s: $(heddle_why guest)"
}
