#!/usr/bin/env bash
# The controller cluster against etcd, A B A B, on loopback with synced logs: `benches/store.sh [ROUNDS] [NODES]`.
# Each turn starts a cluster of its own on an empty folder: 5 x 500 requests one after another at the leader and at a
# follower, then 64 clients, then (on a second cluster, election timeout 100 ms) five leaders killed.
# Needs go, jq, and a release build of heddle. SYSTEMS="etcd" runs one of them alone; RESULTS=file keeps every row.
set -euo pipefail
rounds=${1:-3} nodes=${2:-3}
here=$(cd "$(dirname "$0")/.." && pwd)
heddle=${HEDDLE:-$here/target/release/heddle}
etcd=$here/target/etcd-bench
systems=${SYSTEMS:-etcd heddle}
requests=${REQUESTS:-500} repeat=${REPEAT:-5} many=${MANY:-40000} kills=${KILLS:-5} timeout=${ELECTION_TIMEOUT:-100ms}
port=${PORT:-23790}
declare -A pids=()

work=$(mktemp -d "${TMPDIR:-/tmp}/heddle-store.XXXXXX")
rows=${RESULTS:-$work/rows.jsonl}
: >"$rows"

# Ends every server that this script started, and waits until they are gone.
stop() {
    local node
    for node in "${!pids[@]}"; do kill "${pids[$node]}" 2>/dev/null || true; done
    for node in "${!pids[@]}"; do
        for _ in $(seq 100); do
            kill -0 "${pids[$node]}" 2>/dev/null || break
            sleep 0.05
        done
        kill -KILL "${pids[$node]}" 2>/dev/null || true
        unset "pids[$node]"
    done
}
finish() {
    stop
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

client_port() { echo $((port + 2 * $1)); }
endpoints() {
    local list=() node
    for node in $(seq "$nodes"); do list+=("127.0.0.1:$(client_port "$node")"); done
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

# start SYSTEM NODE TIMEOUT: one server; the first time or again, on the folder that it had. It dies with this script.
start() {
    local system=$1 node=$2 data=$work/$1-$2 command=() peers=() other
    case $system in
    etcd)
        for other in $(seq "$nodes"); do peers+=("n$other=http://127.0.0.1:$(($(client_port "$other") + 1))"); done
        command=("$etcd" node -name "n$node" -data "$data" -client "$(client_port "$node")"
            -peer $(($(client_port "$node") + 1)) -cluster "$(IFS=, && echo "${peers[*]}")")
        [ -z "$3" ] || command+=(-election-timeout "$3")
        ;;
    heddle)
        command=("$heddle" controller --node "n$node" --data "$data" --listen "127.0.0.1:$(client_port "$node")")
        [ "$node" = 1 ] || command+=(--join "127.0.0.1:$(client_port 1)")
        [ -z "$3" ] || command+=(--election-timeout "$3")
        ;;
    esac
    setpriv --pdeathsig KILL -- "${command[@]}" >"$work/$system-$node.log" 2>&1 &
    pids[$node]=$!
    disown
    # etcd's servers wait for each other, ours join one that answers.
    [ "$system" = etcd ] || wait_for_port "$(client_port "$node")"
}
start_all() {
    local node
    rm -rf "$work/$1"-*
    for node in $(seq "$nodes"); do start "$1" "$node" "$2"; done
    for node in $(seq "$nodes"); do wait_for_port "$(client_port "$node")"; done
}

# load SYSTEM OPTIONS..: appends the rows that the load prints.
load() {
    local system=$1 command=("$etcd" load)
    shift
    [ "$system" = etcd ] || command=("$heddle" cluster bench)
    "${command[@]}" --endpoints "$(endpoints)" --value-bytes 200 "$@" -o json |
        jq -c --arg system "$system" --argjson round "$round" '.[] | {system: $system, round: $round} + .' >>"$rows"
}
memory() {
    local node
    for node in "${!pids[@]}"; do
        awk -v s="$1" -v r="$round" '/^VmRSS/ { printf "{\"system\":\"%s\",\"round\":%d,\"operation\":\"resident\",\"at\":\"node\",\"clients\":0,\"mean_ms\":%.1f}\n", s, r, $2 / 1024 }' \
            "/proc/${pids[$node]}/status" >>"$rows"
    done
}

turn() {
    local system=$1 node list
    start_all "$system" ""
    load "$system" --at leader --requests "$requests" --repeat "$repeat" --clients 1 --operations create,read,update,delete
    [ "$nodes" = 1 ] ||
        load "$system" --at follower --requests "$requests" --repeat "$repeat" --clients 1 --operations create,read,update,delete
    load "$system" --at leader --requests "$many" --repeat 1 --clients 64 --operations update,read
    load "$system" --at any --requests "$many" --repeat 1 --clients 64 --operations update,read
    memory "$system"
    stop
    [ "$nodes" -ge 3 ] || return 0
    start_all "$system" "$timeout"
    for _ in $(seq "$kills"); do
        list=()
        for node in $(seq "$nodes"); do list+=("${pids[$node]}"); done
        load "$system" --operations election --pids "$(IFS=, && echo "${list[*]}")"
        for node in $(seq "$nodes"); do kill -0 "${pids[$node]}" 2>/dev/null || start "$system" "$node" "$timeout"; done
        sleep 1
    done
    stop
}

for round in $(seq "$rounds"); do
    for system in $systems; do
        echo "round $round of $rounds: $system" >&2
        turn "$system"
    done
done

printf '%s nodes, 200-byte values; medians of %s rounds; ms are means of %s x %s requests\n' "$nodes" "$rounds" "$requests" "$repeat"
jq -rs '
  def median: sort | if length == 0 then null elif length % 2 == 1 then .[length / 2 | floor] else (.[length / 2 - 1] + .[length / 2]) / 2 end;
  def shown: if . == null then "-" else (. * 1000 | round) / 1000 | tostring end;
  # One client is compared by its latency, many by what they reach together.
  def unit: if .operation == "resident" then "MB" elif .clients > 1 and .operation != "election" then "k/s" else "ms" end;
  def value: if unit == "k/s" then .per_second / 1000 else .mean_ms end;
  def of($system): map(select(.system == $system) | value) | median;
  (["operation", "at", "clients", "unit", "etcd", "heddle", "ratio", "etcd p99", "heddle p99"] | @tsv),
  (group_by([(.clients > 1 and .operation != "election"), .operation == "election", .operation == "resident", .at == "follower", .at == "any",
             (.operation as $o | ["create", "read", "update", "delete"] | index($o))])[]
   | (.[0] | [.operation, .at, (.clients | tostring), unit]) + (of("etcd") as $a | of("heddle") as $b
      | [($a | shown), ($b | shown), (if $a and $b then $b / $a else null end | shown)])
     + ([("etcd", "heddle") as $s | map(select(.system == $s) | .p99_ms // empty) | median | shown]) | @tsv)
' "$rows" | column -t -s "$(printf '\t')"
