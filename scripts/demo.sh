#!/usr/bin/env bash
# Builds Heddle and runs the quickstart: live and simulated, or simulated alone where this machine does not let it run live.
set -euo pipefail
cd "$(dirname "$0")/.."

status=0
scripts/setup.sh || status=$?
drivers=()
case $status in
    0) ;;
    3) drivers=(--sim) ;;
    *) exit "$status" ;;
esac

# `make build` makes a faster program, and takes longer.
cargo build --locked --profile demo --package heddle
heddle=${CARGO_TARGET_DIR:-target}/demo/heddle

echo
echo "$heddle run fabrics/quickstart.fabric.yaml ${drivers[*]-}"
"$heddle" run fabrics/quickstart.fabric.yaml "${drivers[@]}" || status=$?
case $status in
    0 | 3) echo "Open the report in a browser: file://$PWD/results/quickstart/report.html" ;;
    1) echo "An expectation was missed; the report says which: file://$PWD/results/quickstart/report.html" ;;
    *) exit "$status" ;;
esac
if [[ $status -eq 3 ]]; then
    echo "This was the simulation alone. What the live run needs stands above, at the beginning." >&2
    exit 0
fi
exit "$status"
