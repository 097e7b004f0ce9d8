#!/usr/bin/env bash
# TCP, host - switch - host, against a bare veth pair, A B A B: `benches/veth.sh [ROUNDS] [SECONDS]`.
# Prints each round, means, and the coefficient of variation of each (standard deviation over mean). With KERNEL=yes the kernel carries what hosts say to each other (`kernel: yes` of the file).
# Needs root (for the veth pair), iperf3, jq, and a release build of heddle. STREAMS=4 has so many streams at once. AS=NAME has heddle run as that
# user (one who may write to /dev/net/tun); the veth pair is root's always.
set -euo pipefail
rounds=${1:-5} seconds=${2:-5}
here=$(cd "$(dirname "$0")/.." && pwd)
heddle=${HEDDLE:-$here/target/release/heddle}
streams=${STREAMS:-1} as=()
runtime=$(mktemp -d "${TMPDIR:-/tmp}/heddle-veth.XXXXXX")
if [[ -n ${AS:-} ]]; then
    chown "$AS" "$runtime"
    as=(setpriv "--reuid=$AS" "--regid=$(id -g "$AS")" --clear-groups env "XDG_RUNTIME_DIR=$runtime" "HOME=$runtime")
fi
left=heddle-bench-a$$ right=heddle-bench-b$$ name=bench$$

finish() {
    [ -z "${server:-}" ] || kill "$server" 2>/dev/null || true
    [ -z "${peer:-}" ] || kill "$peer" 2>/dev/null || true
    "${as[@]}" "$heddle" down "$name" >/dev/null 2>&1 || true
    ip netns del "$left" 2>/dev/null || true
    ip netns del "$right" 2>/dev/null || true
    rm -rf "$runtime"
}
trap finish EXIT

ip netns add "$left"
ip netns add "$right"
ip link add v0 netns "$left" type veth peer name v1 netns "$right"
ip -n "$left" addr add 10.255.255.1/24 dev v0
ip -n "$right" addr add 10.255.255.2/24 dev v1
ip -n "$left" link set v0 up
ip -n "$right" link set v1 up
ip netns exec "$right" iperf3 -s >/dev/null 2>&1 &
peer=$!

file=$runtime/unshaped.fabric.yaml
{
    cat "$here/fabrics/unshaped.fabric.yaml"
    [[ -z ${KERNEL:-} ]] || echo "kernel: $KERNEL"
} >"$file"
if [[ -n ${AS:-} ]]; then
    # The project's build may be closed to others.
    cp "$heddle" "$runtime"
    heddle=$runtime/heddle
fi
"${as[@]}" "$heddle" up --name "$name" "$file" >/dev/null
"${as[@]}" "$heddle" exec --name "$name" h2 -- iperf3 -s >/dev/null 2>&1 &
server=$!
sleep 0.5

gbit() { jq -r '.end.sum_received.bits_per_second / 1e9'; }
printf '%-6s %12s %12s %8s\n' round 'veth Gbit/s' heddle ratio
for round in $(seq "$rounds"); do
    a=$(ip netns exec "$left" iperf3 -c 10.255.255.2 -P "$streams" -t "$seconds" -J | gbit)
    b=$("${as[@]}" "$heddle" exec --name "$name" h1 -- iperf3 -4 -c h2 -P "$streams" -t "$seconds" -J | gbit)
    awk -v r="$round" -v a="$a" -v b="$b" 'BEGIN { printf "%-6s %12.2f %12.2f %8.2f\n", r, a, b, b / a }'
    echo "$a $b" >>"$runtime/rounds"
done
awk '
    { n++; for (i = 1; i <= 2; i++) { sum[i] += $i; squares[i] += $i * $i } }
    END {
        for (i = 1; i <= 2; i++) {
            mean[i] = sum[i] / n
            variance = n > 1 ? (squares[i] - n * mean[i] * mean[i]) / (n - 1) : 0
            cv[i] = 100 * sqrt(variance > 0 ? variance : 0) / mean[i]
        }
        printf "%-6s %12.2f %12.2f %8.2f\n", "mean", mean[1], mean[2], mean[2] / mean[1]
        printf "%-6s %11.1f%% %11.1f%%\n", "cv", cv[1], cv[2]
    }' "$runtime/rounds"
