#!/usr/bin/env bash
# Runs the whole built suite again and again while another program keeps all cores busy: no test may depend on speed.
#
#   scripts/soak-tests.sh N [ARGUMENT...]     N rounds; the arguments are cargo test's, all tests if there are none
#
# Each round's output is kept if it failed. Exit status 1: a round failed; which tests, it says.
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ ! ${1-} =~ ^[1-9][0-9]*$ ]]; then
    sed -n '2,6s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
rounds=$1
shift
[[ $# -gt 0 ]] || set -- --workspace --lib --bins --tests

RUST_TEST_THREADS=${RUST_TEST_THREADS:-$((2 * $(nproc)))}
export RUST_TEST_THREADS

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

cargo test --locked "$@" --no-run
for _ in $(seq "$(nproc)"); do
    (while :; do :; done) &
    busy+=($!)
done

failed=0
for round in $(seq "$rounds"); do
    log=$logs/round-$round
    if cargo test --locked --no-fail-fast "$@" >"$log" 2>&1; then
        echo "round $round of $rounds: passed, $(grep -c '^test .* ok$' "$log") tests"
        rm "$log"
    else
        failed=$((failed + 1))
        echo "round $round of $rounds: FAILED"
        grep -E '^test .* FAILED$|^error: ' "$log" | sort -u | sed 's/^/    /' || true
    fi
done
echo "$((rounds - failed)) of $rounds rounds passed beside $(nproc) busy programs"
[[ $failed -eq 0 ]]
