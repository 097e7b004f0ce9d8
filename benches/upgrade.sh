#!/usr/bin/env bash
# A rolling upgrade of three controllers under load, from the program of another commit to this one: `benches/upgrade.sh [COMMIT]`.
# First one server is upgraded and taken back again, then all of them are upgraded, one by one, on their folders. Two writers and a reader
# never stop, one writer being of the old program. Fails if a write that was acknowledged is lost, if the writes stop, if the cluster does
# not come to the new version of the protocol, or if the old program can still join.
# Builds both programs without optimisation; OLD=file and NEW=file take programs that are there already. Needs curl.
set -euo pipefail
commit=${1:-2a0d034} version=4
here=$(cd "$(dirname "$0")/.." && pwd)
port=${PORT:-23890}
declare -A pids=()
load=()
work=$(mktemp -d "${TMPDIR:-/tmp}/heddle-upgrade.XXXXXX")

stop() {
    kill "${pids[$1]}" 2>/dev/null || true
    wait "${pids[$1]}" 2>/dev/null || true
    unset "pids[$1]"
}
finish() {
    touch "$work/end"
    local node
    for node in "${!pids[@]}"; do stop "$node"; done
    for node in "${load[@]}"; do wait "$node" 2>/dev/null || true; done
    git -C "$here" worktree remove --force "$work/tree" 2>/dev/null || true
    if [[ ${KEEP:-} ]]; then echo "logs are in $work"; else rm -rf "$work"; fi
}
trap finish EXIT
trap 'exit 130' INT TERM HUP

old=${OLD:-} new=${NEW:-}
if [[ -z $old ]]; then
    git -C "$here" worktree add --quiet --detach "$work/tree" "$commit"
    (cd "$work/tree" && CARGO_TARGET_DIR="$here/target/upgrade" cargo build --quiet --locked --package heddle)
    old=$here/target/upgrade/debug/heddle
fi
if [[ -z $new ]]; then
    (cd "$here" && cargo build --quiet --locked --package heddle)
    new=${CARGO_TARGET_DIR:-$here/target}/debug/heddle
fi

address() { echo "127.0.0.1:$((port + 2 * $1))"; }
http() { echo "127.0.0.1:$((port + 2 * $1 + 1))"; }
all=$(address 1),$(address 2),$(address 3)
fail() {
    echo "FAILED: $*" >&2
    tail -n 5 "$work"/*.log >&2
    exit 1
}
# eventually WHAT COMMAND...: a minute's patience.
eventually() {
    local what=$1
    shift
    for _ in $(seq 600); do
        "$@" && return
        sleep 0.1
    done
    fail "it did not happen: $what"
}
is_ready() { curl --silent --fail --output /dev/null "http://$(http "$1")/readyz"; }
live() { "$old" cluster --endpoints "$(address "$1")" status -o json 2>/dev/null | grep -c '"live": true'; }
all_live() { [[ $(live "$1") -ge 3 ]]; }
is_raised() { curl --silent "http://$(http "$1")/metrics" | grep -q "^heddle_protocol_version $version\$"; }
# start NODE PROGRAM: the first time or again, on the folder that it had.
start() {
    local node=$1 program=$2 join=()
    [[ $node = 1 ]] || join=(--join "$(address 1)")
    "$program" controller --node "c$node" --data "$work/c$node" --listen "$(address "$node")" --http "$(http "$node")" \
        "${join[@]}" >>"$work/c$node.log" 2>&1 &
    pids[$node]=$!
    eventually "server $node is ready" is_ready "$node"
}
acknowledged() { cat "$work"/acknowledged-* 2>/dev/null | wc -l; }
# replace NODE PROGRAM NAME: and the writes go on.
replace() {
    local before
    stop "$1"
    start "$1" "$2"
    eventually "server $1 is taken for live" all_live "$1"
    before=$(acknowledged)
    eventually "writes go on after server $1" more_than "$((before + 4))"
    echo "server $1 runs the $3 program; $(acknowledged) writes acknowledged so far"
}
more_than() { [[ $(acknowledged) -gt $1 ]]; }

# write NAME PROGRAM: one value after another, each until it is acknowledged.
write() {
    local n=0 begun span longest=0 tries=0
    until [[ -e $work/end ]]; do
        n=$((n + 1)) begun=$(date +%s%N)
        until "$2" cluster --endpoints "$all" put "/$1:values/value=$n" "$1 $n" >/dev/null 2>>"$work/$1.log"; do
            tries=$((tries + 1))
            [[ -e $work/end ]] && return
        done
        span=$((($(date +%s%N) - begun) / 1000000))
        longest=$((span > longest ? span : longest))
        echo "$n" >>"$work/acknowledged-$1"
        echo "longest write $longest ms; commands that gave up and were repeated: $tries" >"$work/figures-$1"
    done
}
# What was acknowledged last is there, whoever is asked.
read_back() {
    local n value reads=0
    until [[ -e $work/end ]]; do
        n=$(tail -n 1 "$work/acknowledged-old" 2>/dev/null || true)
        [[ $n ]] || continue
        if value=$("$new" cluster --endpoints "$all" get "/old:values/value=$n" 2>>"$work/read.log"); then
            [[ $value = "old $n" ]] || echo "value $n is '$value'" >>"$work/wrong"
            reads=$((reads + 1))
            echo "$reads" >"$work/reads"
        fi
    done
}

echo "old: $("$old" --version), commit $commit; new: $("$new" --version), commit $(git -C "$here" rev-parse --short HEAD)"
for node in 1 2 3; do start "$node" "$old"; done
eventually "three servers are live" all_live 1
write old "$old" &
load+=($!)
write new "$new" &
load+=($!)
read_back &
load+=($!)
eventually "writes begin" more_than 10
echo "three servers run the old program; $(acknowledged) writes acknowledged so far"
replace 2 "$new" new
replace 2 "$old" "old (back again)"
for node in 1 2 3; do replace "$node" "$new" new; done
for node in 1 2 3; do eventually "server $node says that all speak version $version" is_raised "$node"; done
echo "all servers say: protocol version $version"
more=$(acknowledged)
eventually "writes go on" more_than "$((more + 20))"
touch "$work/end"
for pid in "${load[@]}"; do wait "$pid" || true; done

lost=0
for name in old new; do
    while read -r n; do
        value=$("$new" cluster --endpoints "$all" get "/$name:values/value=$n" || true)
        [[ $value = "$name $n" ]] || lost=$((lost + 1))
    done <"$work/acknowledged-$name"
    echo "the $name program's writer: $(wc -l <"$work/acknowledged-$name") writes acknowledged; $(cat "$work/figures-$name")"
done
echo "reads of the last acknowledged value: $(cat "$work/reads"); acknowledged and lost: $lost"
[[ $lost = 0 && ! -e $work/wrong ]] || fail "values are lost: $(cat "$work/wrong" 2>/dev/null)"
if "$old" controller --node c4 --data "$work/c4" --listen "$(address 4)" --join "$(address 1)" >"$work/c4.log" 2>&1; then
    fail "the old program has joined"
fi
tr -s ' │\n' ' ' <"$work/c4.log" | grep --quiet "speak version $version of the protocol" || fail "no word about the version"
echo "the old program cannot join any more"
