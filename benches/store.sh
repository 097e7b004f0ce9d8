#!/usr/bin/env bash
# The controller cluster against etcd, A B A B, on loopback with synced logs: `benches/store.sh [ROUNDS] [NODES]`.
# Both clusters stand beside each other, and each load goes to the one and then to the other, in each round in the other order: what else
# the machine does hits both alike. A round is 500 requests one after another at the leader and at a follower, then 64 clients; every third
# round has leaders killed on clusters of their own (election timeout 100 ms): KILLS of them, 2 unless it says otherwise. An election's length
# is drawn anew each time, by both systems: to compare them takes some tens (KILLS=20).
# BUSY=1 has two other programs want both CPUs all the time. Needs go, jq, and a release build of heddle. SYSTEMS="etcd" runs one of them
# alone; RESULTS=file keeps every row.
set -euo pipefail
rounds=${1:-9} nodes=${2:-3}
here=$(cd "$(dirname "$0")/.." && pwd)
heddle=${HEDDLE:-$here/target/release/heddle}
etcd=$here/target/etcd-bench
systems=${SYSTEMS:-etcd heddle}
requests=${REQUESTS:-500} many=${MANY:-20000} kills=${KILLS:-2} busy=${BUSY:-} timeout=${ELECTION_TIMEOUT:-100ms}
port=${PORT:-23790}
# By system and node, as in etcd-1; and the programs that keep the CPUs busy.
declare -A pids=()
hogs=()

work=$(mktemp -d "${TMPDIR:-/tmp}/heddle-store.XXXXXX")
rows=${RESULTS:-$work/rows.jsonl}
: >"$rows"

# stop PATTERN: ends servers that this script started, and waits until they are gone.
# shellcheck disable=SC2053  # It is a pattern.
stop() {
    local node
    for node in "${!pids[@]}"; do [[ $node != $1 ]] || kill "${pids[$node]}" 2>/dev/null || true; done
    for node in "${!pids[@]}"; do
        [[ $node = $1 ]] || continue
        for _ in $(seq 100); do
            kill -0 "${pids[$node]}" 2>/dev/null || break
            sleep 0.05
        done
        kill -KILL "${pids[$node]}" 2>/dev/null || true
        unset "pids[$node]"
    done
}
finish() {
    [[ ${#hogs[@]} = 0 ]] || kill "${hogs[@]}" 2>/dev/null || true
    stop '*'
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM HUP

if [ "$(stat -f -c %T "$work")" = tmpfs ]; then
    echo "$work is in memory, where syncing costs nothing. hint: TMPDIR=/a/folder/on/disk benches/store.sh" >&2
    exit 1
fi
(cd "$here/benches/etcd" && go build -o "$etcd" .)
[[ $systems != *heddle* || -x $heddle ]] || { echo "no $heddle. hint: cargo build --release, or SYSTEMS=etcd" >&2; exit 1; }

# A cluster is called as its system, and `-killed` is added to the name of one whose leaders are killed.
declare -A base=([etcd]=$port [heddle]=$((port + 20)) [etcd-killed]=$((port + 40)) [heddle-killed]=$((port + 60)))
client_port() { echo $((base[$1] + 2 * $2)); }
endpoints() {
    local list=() node
    for node in $(seq "$nodes"); do list+=("127.0.0.1:$(client_port "$1" "$node")"); done
    (IFS=, && echo "${list[*]}")
}
wait_for_port() {
    for _ in $(seq 400); do
        (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null && return
        sleep 0.025
    done
    echo "nothing listens on port $1 after 10 s; the servers say:" >&2
    tail -n 5 "$work"/*.log >&2
    return 1
}

# start CLUSTER NODE TIMEOUT: one server; the first time or again, on the folder that it had. It dies with this script.
start() {
    local cluster=$1 node=$2 data=$work/$1-$2 command=() peers=() other client
    client=$(client_port "$cluster" "$node")
    case $cluster in
    etcd*)
        for other in $(seq "$nodes"); do peers+=("n$other=http://127.0.0.1:$(($(client_port "$cluster" "$other") + 1))"); done
        command=("$etcd" node -name "n$node" -data "$data" -client "$client" -peer $((client + 1)) -cluster "$(IFS=, && echo "${peers[*]}")")
        [ -z "$3" ] || command+=(-election-timeout "$3")
        ;;
    heddle*)
        command=("$heddle" controller --node "n$node" --data "$data" --listen "127.0.0.1:$client")
        [ "$node" = 1 ] || command+=(--join "127.0.0.1:$(client_port "$cluster" 1)")
        [ -z "$3" ] || command+=(--election-timeout "$3")
        ;;
    esac
    setpriv --pdeathsig KILL -- "${command[@]}" >"$work/$cluster-$node.log" 2>&1 &
    pids[$cluster-$node]=$!
    disown
    # etcd's servers wait for each other, Heddle's join one that answers.
    [[ $cluster = etcd* ]] || wait_for_port "$client"
}
start_all() {
    local node
    rm -rf "$work/$1"-[0-9]*
    for node in $(seq "$nodes"); do start "$1" "$node" "$2"; done
    for node in $(seq "$nodes"); do wait_for_port "$(client_port "$1" "$node")"; done
}

# load CLUSTER OPTIONS..: appends the rows that the load prints.
load() {
    local cluster=$1 command=("$etcd" load)
    shift
    [[ $cluster = etcd* ]] || command=("$heddle" cluster bench)
    "${command[@]}" --endpoints "$(endpoints "$cluster")" --value-bytes 200 "$@" -o json |
        jq -c --arg system "${cluster%-killed}" --argjson round "$round" '.[] | {system: $system, round: $round} + .' >>"$rows"
}
# both OPTIONS..: the same load to each, one after the other.
both() {
    local system
    for system in $order; do load "$system" "$@"; done
}
memory() {
    local system node
    for system in $systems; do
        for node in $(seq "$nodes"); do
            awk -v s="$system" -v r="$round" '/^VmRSS/ { printf "{\"system\":\"%s\",\"round\":%d,\"operation\":\"resident\",\"at\":\"node\",\"clients\":0,\"mean-ms\":%.1f}\n", s, r, $2 / 1024 }' \
                "/proc/${pids[$system-$node]}/status" >>"$rows"
        done
    done
}
# kill_leaders SYSTEM: the time to the first write elsewhere, on a cluster of its own.
kill_leaders() {
    local cluster=$1-killed node list
    start_all "$cluster" "$timeout"
    for _ in $(seq "$kills"); do
        list=()
        for node in $(seq "$nodes"); do list+=("${pids[$cluster-$node]}"); done
        load "$cluster" --operations election --pids "$(IFS=, && echo "${list[*]}")"
        for node in $(seq "$nodes"); do kill -0 "${pids[$cluster-$node]}" 2>/dev/null || start "$cluster" "$node" "$timeout"; done
        sleep 1
    done
    stop "$cluster-*"
}

if [ -n "$busy" ]; then
    for _ in 1 2; do
        setpriv --pdeathsig KILL -- sh -c 'while :; do :; done' &
        hogs+=($!)
        disown
    done
fi
for system in $systems; do start_all "$system" ""; done
for round in $(seq "$rounds"); do
    echo "round $round of $rounds" >&2
    order=$systems
    [ $((round % 2)) = 1 ] || order=$(for system in $systems; do echo "$system"; done | tac | xargs)
    both --at leader --requests "$requests" --repeat 1 --clients 1 --operations create,read,update,delete
    [ "$nodes" = 1 ] || both --at follower --requests "$requests" --repeat 1 --clients 1 --operations create,read,update,delete
    both --at leader --requests "$many" --repeat 1 --clients 64 --operations update,read
    both --at any --requests "$many" --repeat 1 --clients 64 --operations update,read
    memory
    if [ "$nodes" -ge 3 ] && [ $((round % 3)) = 0 ]; then
        for system in $order; do kill_leaders "$system"; done
    fi
done

printf '%s nodes, 200-byte values; medians of %s rounds of %s requests each (of 64 clients: %s); ratios are medians over rounds, with the middle half of them\n' \
    "$nodes" "$rounds" "$requests" "$many"
jq -rs '
  # Between two values on a straight line, as R and numpy do.
  def quantile($q): sort | if length == 0 then null else ((length - 1) * $q) as $at
      | .[$at | floor] + ($at - ($at | floor)) * (.[$at | ceil] - .[$at | floor]) end;
  def shown: if . == null then "-" elif . >= 100 then (. * 10 | round) / 10 | tostring else (. * 1000 | round) / 1000 | tostring end;
  # One client is compared by its latency, many by what they reach together.
  def is_rate: .clients > 1 and .operation != "election";
  def unit: if .operation == "resident" then "MB" elif is_rate then "k/s" else "ms" end;
  def of($system; value): map(select(.system == $system) | value // empty) | quantile(0.5);
  # Of two numbers of the same round.
  def ratios(value): [group_by(.round)[] | [of("heddle"; value), of("etcd"; value)] | select(all(. != null)) | .[0] / .[1]];
  def ratio(value): ratios(value) | if length == 0 then "-" else
      (quantile(0.5) | . * 100 | round / 100 | tostring) + " (" + ([quantile(0.25), quantile(0.75)] | map(. * 100 | round / 100 | tostring) | join("-")) + ")" end;
  def three(value): [of("etcd"; value), of("heddle"; value) | shown] + [ratio(value)];
  (["operation", "at", "clients", "unit", "etcd", "heddle", "ratio", "etcd p50", "p50", "ratio", "etcd p99", "p99", "ratio"] | @tsv),
  (group_by([is_rate, .operation == "election", .operation == "resident", .at == "follower", .at == "any",
             (.operation as $o | ["create", "read", "update", "delete"] | index($o))])[]
   | (.[0] | [.operation, .at, (.clients | tostring), unit])
     + (if (.[0] | is_rate) then three(."per-second" / 1000) else three(."mean-ms") end)
     + (if .[0].operation == "election" then [] else three(."p50-ms") + three(."p99-ms") end) | @tsv)
' "$rows" | column -t -s "$(printf '\t')"
