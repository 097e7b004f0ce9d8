#!/usr/bin/env bash
# Looks at a report in Chromium as its readers do: light, dark, on paper, and 390 pixels wide. Writes a picture of each, and checks what can be checked without eyes: nothing is wider than the
# page, no element lies outside of it, no text is cut, no labels of a plot lie over each other, and text stands out from what is behind it.
#
#   scripts/report-look.sh [REPORT.html] [FOLDER]     [default: a report of fabrics/fat-tree.fabric.yaml and of the quickstart, simulated; target/look]
#
# HEDDLE says which program makes the reports. As root it installs chromium. Status 1: something is wrong, a line each. Status 3: there is no Chromium.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
folder=$(realpath -m "${2:-$target/look}")
mkdir -p "$folder"

chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [[ -z $chromium && $(id -u) -eq 0 ]] && command -v apt-get >/dev/null; then
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends chromium >/dev/null 2>&1 </dev/null || true
    chromium=$(command -v chromium || true)
fi
[[ -n $chromium ]] || { echo "report-look.sh: SKIPPED: there is no Chromium (apt-get install chromium)" >&2; exit 3; }
command -v python3 >/dev/null || { echo "report-look.sh: SKIPPED: there is no python3" >&2; exit 3; }

reports=()
if [[ $# -ge 1 ]]; then
    reports=("$1")
else
    heddle=${HEDDLE:-}
    if [[ -z $heddle ]]; then
        for build in release demo debug; do
            if [[ -x $target/$build/heddle ]]; then heddle=$target/$build/heddle && break; fi
        done
    fi
    [[ -n $heddle ]] || { echo "report-look.sh: no heddle in $target. hint: make build" >&2; exit 2; }
    for name in quickstart fat-tree; do
        # A missed expectation is shown, too.
        "$heddle" run "fabrics/$name.fabric.yaml" --sim --quiet --overwrite --results "$folder/$name" >/dev/null || [[ $? -eq 1 ]]
        reports+=("$folder/$name/report.html")
    done
fi

status=0
for report in "${reports[@]}"; do
    python3 scripts/report-look.py "$chromium" "$(realpath "$report")" "$folder" || status=1
done
exit "$status"
