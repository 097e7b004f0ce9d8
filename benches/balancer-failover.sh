#!/usr/bin/env bash
# A balancer dies: `benches/balancer-failover.sh [ROUNDS] [SECONDS]`. Two balancers of a service, both active and then one by VRRP; the link of one of them is cut in the middle of each round, and is back before the
# next one. Prints, for each of both ways: requests on connections that last which failed (0 is the goal), requests with a connection of their own which failed, and for how long new connections found
# nobody, as the share of first segments that had to be sent again tells (Linux sends them again after a second): 300 ms is the goal. Needs jq and a release build of heddle in PATH or HEDDLE=PROGRAM.
# Everything is in namespaces.
set -euo pipefail
shopt -s inherit_errexit
rounds=${1:-5} seconds=${2:-6}
heddle=${HEDDLE:-heddle}
# shellcheck source=benches/functions.sh
source "$(dirname "$0")/functions.sh"
need jq:jq
name=failover$$
rate=500
begin
trap '"$heddle" down "$name" >/dev/null 2>&1 || true; end' EXIT

network() { # VRRP
    cat <<FABRIC
name: $name
nodes:
  client: host
  s1: { kind: host, programs: { serve: { run: [$heddle, serve, ":80"], restart: always } } }
  s2: { kind: host, programs: { serve: { run: [$heddle, serve, ":80"], restart: always } } }
  lb1: host
  lb2: host
  leaf: switch
links:
  - between: [client, leaf]
  - between: [s1, leaf]
  - between: [s2, leaf]
  - between: [lb1, leaf]
  - between: [lb2, leaf]
services:
  web: { address: 10.1.0.80:80, servers: [s1, s2], forward: full-nat, at: [lb1, lb2]$1 }
FABRIC
}

load() { # FILE OPTION..
    local out=$1
    shift
    "$heddle" exec -n "$name" client "$heddle" load 10.1.0.80:80 --for "${seconds}s" --timeout 5s --buckets -o json "$@" >"$out" 2>/dev/null || true
}

for mode in all-active vrrp; do
    vrrp=''
    if [[ $mode = vrrp ]]; then vrrp=', vrrp: { router: 51 }'; fi
    network "$vrrp" >"$work/net.fabric.yaml"
    "$heddle" up "$work/net.fabric.yaml" >/dev/null 2>&1
    until "$heddle" exec -n "$name" client "$heddle" load 10.1.0.80:80 --clients 1 --for 1s >/dev/null 2>&1; do sleep 0.1; done
    for round in $(seq "$rounds"); do
        load "$work/lasting" --clients 50 --think 10ms &
        lasting=$!
        load "$work/new" --rate "$rate/s" --poisson --new-connections &
        new=$!
        sleep "$((seconds / 2))"
        "$heddle" link --name "$name" down lb1 leaf >/dev/null
        wait "$lasting" "$new"
        "$heddle" link --name "$name" up lb1 leaf >/dev/null
        jq .failed "$work/lasting" >>"$work/$mode.lasting"
        jq .failed "$work/new" >>"$work/$mode.new"
        jq --argjson rate "$rate" '[.buckets[] | select(.[0] >= 9e8) | .[1]] | (add // 0) / $rate * 1000' "$work/new" >>"$work/$mode.outage"
        [[ $round = "$rounds" ]] || sleep 2
    done
done
for mode in all-active vrrp; do
    median_row "$mode: failed on connections that last" "$work/$mode.lasting"
    median_row "$mode: failed with a connection of their own" "$work/$mode.new"
    median_row "$mode: new connections found nobody for, ms" "$work/$mode.outage"
done
"$heddle" show services "$name"
