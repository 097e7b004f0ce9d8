#!/usr/bin/env bash
# A server dies: `benches/server-killed.sh [ROUNDS] [SECONDS]`. Four servers of a service, requests with a connection of their own; in the middle of each round one of them is killed (its host refuses
# from then on) or its link is cut (nobody answers). Prints, for each of both ways: after how many milliseconds the service has taken it out, by passive checks alone, requests that failed until then,
# and those that failed afterwards (0 is the goal; 100 ms for the first). Needs jq and a release build of heddle in PATH or HEDDLE=PROGRAM. Everything is in namespaces.
set -euo pipefail
shopt -s inherit_errexit
rounds=${1:-5} seconds=${2:-4}
heddle=${HEDDLE:-heddle}
# shellcheck source=benches/functions.sh
source "$(dirname "$0")/functions.sh"
need jq:jq
name=killed$$
rate=1000
begin
trap '"$heddle" down "$name" >/dev/null 2>&1 || true; end' EXIT

cat >"$work/net.fabric.yaml" <<FABRIC
name: $name
nodes:
  client: host
  s1: { kind: host, programs: { serve: { run: [$heddle, serve, ":80"] } } }
  s2: { kind: host, programs: { serve: { run: [$heddle, serve, ":80"] } } }
  s3: { kind: host, programs: { serve: { run: [$heddle, serve, ":80"] } } }
  s4: { kind: host, programs: { serve: { run: [$heddle, serve, ":80"] } } }
  leaf: switch
links:
  - between: [client, leaf]
  - between: [s1, leaf]
  - between: [s2, leaf]
  - between: [s3, leaf]
  - between: [s4, leaf]
services:
  web: { address: 10.1.0.80:80, servers: [s1, s2, s3, s4], scheduler: lc }
FABRIC

now() { echo "${EPOCHREALTIME/./}"; }
# How many requests have failed at a server, and its state.
state() { "$heddle" show services "$name" -o csv | awk -F, '$4 == "s1" { print $5, $11 }'; }

for way in process link; do
    for _ in $(seq "$rounds"); do
        "$heddle" up "$work/net.fabric.yaml" >/dev/null 2>&1
        until "$heddle" exec -n "$name" client -- "$heddle" load 10.1.0.80:80 --clients 8 --new-connections --for 1s >/dev/null 2>&1; do sleep 0.1; done
        "$heddle" exec -n "$name" client -- "$heddle" load 10.1.0.80:80 --rate "$rate/s" --poisson --new-connections --for "${seconds}s" --timeout 3s -o json >"$work/load" 2>/dev/null &
        load=$!
        sleep "$((seconds / 2))"
        case $way in
            process)
                victim=$("$heddle" show programs "$name" -o json | jq -r '.[] | select(.host == "s1") | .pid')
                began=$(now)
                kill -9 "$victim"
                ;;
            link)
                began=$(now)
                "$heddle" link --name "$name" down s1 leaf >/dev/null
                ;;
        esac
        # What it was given and could not answer, when it is out (or nobody asks any more), and at the end.
        while read -r is failed < <(state) && [[ $is = up ]] && kill -0 "$load" 2>/dev/null; do :; done
        ended=$(now)
        wait "$load" || true
        read -r _ all < <(state)
        awk -v us="$((ended - began))" 'BEGIN { print us / 1000 }' >>"$work/$way.detected"
        echo "$failed" >>"$work/$way.before"
        echo "$((all - failed))" >>"$work/$way.after"
        jq .failed "$work/load" >>"$work/$way.failed"
        "$heddle" down "$name" >/dev/null
    done
done
for way in process link; do
    median_row "$way killed: shown as out after, ms (it looks for 500)" "$work/$way.detected"
    median_row "$way killed: failures that took it out" "$work/$way.before"
    median_row "$way killed: failures afterwards" "$work/$way.after"
    median_row "$way killed: requests that failed, as clients see" "$work/$way.failed"
done
