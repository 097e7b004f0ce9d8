#!/usr/bin/env bash
# Runs the whole suite again and again while another program keeps all cores busy: no test may depend on speed.
#
#   scripts/soak-tests.sh N [ARGUMENT...]     N rounds of `scripts/test.sh --locked`; with arguments, of `cargo test` with them
#
# BESIDE='COMMAND' in the environment is that program; it is an error if it ends before the last round. Without it, shells count.
# Each round's output is kept if it failed. Exit status 1: a round failed; which tests, it says.
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ ! ${1-} =~ ^[1-9][0-9]*$ ]]; then
    sed -n '2,8s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
rounds=$1
shift
suite=(scripts/test.sh --locked)
if [[ $# -gt 0 ]]; then
    export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$((2 * $(nproc)))}
    suite=(cargo test --locked --no-fail-fast "$@")
fi

logs=$(mktemp -d "${TMPDIR:-/tmp}/heddle-soak.XXXXXX")
busy=()
# shellcheck disable=SC2317,SC2329  # Called by the trap.
finish() {
    local process
    for process in "${busy[@]}"; do kill "$process" 2>/dev/null || true; done
    rmdir "$logs" 2>/dev/null || echo "logs: $logs" >&2
}
trap finish EXIT
trap 'exit 130' INT TERM HUP

if [[ $# -gt 0 ]]; then cargo test --locked "$@" --no-run; else cargo test --locked --workspace --lib --bins --tests --no-run; fi
beside="$(nproc) busy programs"
if [[ -n ${BESIDE-} ]]; then
    beside=$BESIDE
    $BESIDE >/dev/null &
    busy+=($!)
else
    for _ in $(seq "$(nproc)"); do
        (while :; do :; done) &
        busy+=($!)
    done
fi

failed=0
for round in $(seq "$rounds"); do
    log=$logs/round-$round
    begun=$SECONDS
    kill -0 "${busy[0]}" || { echo "the other program has ended: $beside" >&2; exit 1; }
    if "${suite[@]}" >"$log" 2>&1; then
        echo "round $round of $rounds: passed, $(grep -cE '^ *(PASS|test .* ok$)' "$log") tests in $((SECONDS - begun)) s"
        rm "$log"
    else
        failed=$((failed + 1))
        echo "round $round of $rounds: FAILED after $((SECONDS - begun)) s"
        grep -E '^test .* FAILED$|^ *(FAIL|TIMEOUT|SIG[A-Z]*) \[|^error: ' "$log" | sort -u | sed 's/^/    /' || true
    fi
done
echo "$((rounds - failed)) of $rounds rounds passed beside $beside"
[[ $failed -eq 0 ]]
