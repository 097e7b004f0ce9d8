#!/usr/bin/env bash
# Which server gets each connection: IPVS of a real Linux, in a guest (scripts/uml.sh), against the machine of services.
#
#   benches/ipvs.sh [EVENTS] [SEED...]      600 events of seed 1 unless said otherwise; it takes three minutes, most of which IPVS waits
#
# A script by chance (connections that come and go, weights, limits, servers that come and go) is played to both, for rr, wrr, lc, wlc, sed, nq, sh, mh, and the
# choices are compared connection by connection, the counts of connections every 50 events and again when what was inactive is gone. Exit status: 1 if they differ.
# Run it as root; it installs what it lacks (Debian).
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
events=${1:-600}
seeds=("${@:2}")
[[ ${#seeds[@]} -gt 0 ]] || seeds=(1)
schedulers=(rr wrr lc wlc sed nq sh mh)

# shellcheck source=benches/functions.sh
source "$here/benches/functions.sh"
need linux.uml:user-mode-linux modprobe:kmod ipvsadm:ipvsadm python3:python3
cargo build --quiet --locked --manifest-path "$here/Cargo.toml" --package heddle-balance --example choose
choose=${CARGO_TARGET_DIR:-$here/target}/debug/examples/choose

work=$(mktemp -d "${TMPDIR:-/tmp}/heddle-ipvs.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
modules=(--module veth)
for scheduler in "${schedulers[@]}"; do modules+=(--module "ip_vs_$scheduler"); done

# Lines of one file that stand otherwise in the other, of lines that begin so.
differing() { { diff <(grep -E "$3" "$1") <(grep -E "$3" "$2") || true; } | grep -c '^<' || true; }

status=0
printf '%-6s %-5s %12s %8s %10s %10s\n' seed name connections refused differing counts
for seed in "${seeds[@]}"; do
    "$choose" script "$seed" "$events" >"$work/script"
    "$here/scripts/uml.sh" --memory 256M --share "$work" "${modules[@]}" -- "$here/benches/ipvs/guest.sh" "$work" "${schedulers[@]}" >&2 </dev/null
    for scheduler in "${schedulers[@]}"; do
        "$choose" play "$scheduler" <"$work/script" >"$work/own"
        theirs=$work/ipvs.$scheduler
        all=$(grep -c '^[0-9]' "$work/own")
        if [[ $(wc -l <"$theirs") -ne $(wc -l <"$work/own") ]]; then
            echo "ipvs.sh: seed $seed, $scheduler: IPVS has $(wc -l <"$theirs") lines of $(wc -l <"$work/own")" >&2
            status=1
            continue
        fi
        connections=$(differing "$theirs" "$work/own" '^[0-9]') counts=$(differing "$theirs" "$work/own" '^counts')
        printf '%-6s %-5s %12s %8s %10s %10s\n' "$seed" "$scheduler" "$all" "$(grep -c ' none$' "$work/own" || true)" "$connections" "$counts"
        if [[ $connections -ne 0 || $counts -ne 0 ]]; then
            status=1
            diff --side-by-side --width 60 --suppress-common-lines "$theirs" "$work/own" | head -n "${DIFFERENCES:-3}" >&2 || true
        fi
    done
done
exit $status
