#!/usr/bin/env bash
# Ten common tasks (benches/tasks), done with Heddle and with Mininet in turns, A B A B: lines that a user writes, and seconds that he waits: `benches/mininet.sh [ROUNDS] [TASK..]`.
# Prints the rows of the table in docs/comparison.md: lines, and medians with the least and the most. Lines are counted without empty ones and comments; those of containerlab, where a task has them, are counted only.
# Each task is a script that has to succeed, in a folder, a network namespace and a mount namespace of its own. Mininet has Linux bridges as switches, since those are in every kernel,
# with spanning tree where there are circles; what this kernel lacks for a task (`needs`) is said.
# Needs root, jq, curl and iperf3, and a release build of heddle (HEDDLE names another). Installs Debian's mininet, bridge-utils, tcpdump and python3-matplotlib if they are missing.
set -euo pipefail
shopt -s inherit_errexit
rounds=${1:-5}
here=$(cd "$(dirname "$0")/.." && pwd)
heddle=$(realpath "${HEDDLE:-$here/target/release/heddle}")
[[ -x $heddle ]] || { echo "no $heddle. hint: cargo build --release" >&2; exit 3; }
[[ $(id -u) -eq 0 ]] || { echo "Mininet needs root" >&2; exit 3; }
tasks=("${@:2}")
[[ ${#tasks[@]} -gt 0 ]] || mapfile -t tasks < <(cd "$here/benches/tasks" && printf '%s\n' [0-9]*)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
ln -s "$heddle" "$work/bin/heddle"

# Debian's programs run with Debian's Python, whatever else the machine has.
export PATH=$work/bin:/usr/sbin:/usr/bin:/sbin:/bin
lacking=()
for entry in mn:mininet brctl:bridge-utils tcpdump:tcpdump curl:curl iperf3:iperf3; do command -v "${entry%%:*}" >/dev/null || lacking+=("${entry##*:}"); done
python3 -c 'import matplotlib' 2>/dev/null || lacking+=(python3-matplotlib)
if [[ ${#lacking[@]} -gt 0 ]] &&
    ! DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${lacking[@]}" </dev/null >"$work/apt" 2>&1; then
    tail -n 5 "$work/apt" >&2
    echo "missing: ${lacking[*]}" >&2
    exit 3
fi

has() { # a part of the kernel that a task needs
    case $1 in
        netem) unshare --net tc qdisc add dev lo root netem delay 1ms 2>/dev/null ;;
        *) return 1 ;;
    esac
}
lines() { grep -cvE '^[[:space:]]*(#.*)?$' "$1"; }

# Runs a task's script; prints seconds. `once TASK TOOL`
once() {
    local folder begin end
    folder=$(mktemp -d -p "$work")
    mkdir "$folder/run" "$folder/lab"
    begin=$(date +%s%N)
    # shellcheck disable=SC2016
    # Bridges, hosts and what Mininet leaves behind are in namespaces that end with the task.
    if ! (cd "$folder/lab" && XDG_RUNTIME_DIR=$folder/run timeout --kill-after=5 300 unshare --net --mount --pid --fork --kill-child --mount-proc \
        bash -c 'ip link set lo up && exec bash -e "$0"' "$here/benches/tasks/$1/$2" >"$work/log" 2>&1 </dev/null); then
        tail -n 10 "$work/log" >&2
        echo "$1 with $2 failed" >&2
        exit 1
    fi
    end=$(date +%s%N)
    rm -rf "$folder"
    awk -v ns=$((end - begin)) 'BEGIN { printf "%.3f\n", ns / 1e9 }'
}
summary() { sort -n | awk '{ v[NR] = $1 } END { m = (NR % 2) ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2; printf "%.2f (%.2f to %.2f)", m, v[1], v[NR] }'; }

# Rows of the table in docs/comparison.md.
cell() { # lines, then seconds if there are any
    if [[ -n ${2:-} ]]; then printf '%s; %s s' "$1" "$2"; else printf '%s' "$1"; fi
}
counted() { if [[ -f $1 ]]; then lines "$1"; else echo -; fi; }
echo '| task | Heddle | Mininet | containerlab |'
echo '|---|---|---|---|'
for task in "${tasks[@]}"; do
    folder=$here/benches/tasks/$task
    missing=
    if [[ -f $folder/needs ]]; then
        while read -r need; do has "$need" || missing+=" $need"; done <"$folder/needs"
    fi
    : >"$work/heddle.s"
    : >"$work/mininet.s"
    for ((round = 0; round < rounds; round++)); do
        once "$task" heddle >>"$work/heddle.s"
        [[ -n $missing ]] || once "$task" mininet >>"$work/mininet.s"
    done
    mininet=
    if [[ -n $missing ]]; then
        echo "$task: this kernel lacks$missing, which Mininet needs" >&2
    else
        mininet=$(summary <"$work/mininet.s")
    fi
    what=$(sed -n 's/^# //p;q' "$folder/heddle")
    printf '| %s | %s | %s | %s |\n' "$what" "$(cell "$(lines "$folder/heddle")" "$(summary <"$work/heddle.s")")" \
        "$(cell "$(lines "$folder/mininet")" "$mininet")" "$(counted "$folder/containerlab")"
done
