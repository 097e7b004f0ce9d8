#!/usr/bin/env bash
# Holds simulated hosts against live ones: runs each file of fabrics/twin both ways and prints what differs by how much.
#
#   scripts/twin.sh [FILE...]     some of the files only; results go to results/twin-*
#   HEDDLE=PROGRAM                instead of building it
#
# The last line says how many files have all their metrics within tolerance (`heddle help compare`). Status 0: all but one in twelve; 1: fewer.
set -euo pipefail
cd "$(dirname "$0")/.."

heddle=${HEDDLE:-}
if [[ -z $heddle ]]; then
    cargo build --locked --profile demo --package heddle
    heddle=${CARGO_TARGET_DIR:-target}/demo/heddle
fi
files=("$@")
[[ ${#files[@]} -gt 0 ]] || files=(fabrics/twin/*.fabric.yaml)
table='%-24s %-15s %12s %12s %9s  %-6s  %s\n'

# Metrics of one file, from `compare -o csv`. Where it has several cases, its rows say which they are of.
rows() {
    awk -F, -v file="$1" -v table="$table" '
        # A case of several labels has commas, and stands in quotes.
        match($0, /"[^"]*"/) {
            quoted = substr($0, RSTART + 1, RLENGTH - 2)
            gsub(/,/, ";", quoted)
            $0 = substr($0, 1, RSTART - 1) quoted substr($0, RSTART + RLENGTH)
        }
        NR == 1 { for (at = 1; at <= NF; at++) column[$at] = at; next }
        $column["within"] != "" {
            live = $column["live_mean"]; sim = $column["sim_mean"]; relative = $column["relative"]; within = $column["within"]
            unit = ""
            if ($column["metric"] ~ /^goodput/) { live /= 1e6; sim /= 1e6; unit = "M" }
            if ($column["metric"] ~ /^completion/) { live *= 1e3; sim *= 1e3; unit = "ms" }
            about = $column["case"] == "all" ? "" : $column["experiment"] ": " $column["case"]
            verdict = within == "true" ? "yes" : "NO"
            apart = relative == "" ? "-" : sprintf("%+.1f %%", 100 * relative)
            printf table, file, $column["metric"], sprintf("%.2f%s", live, unit), sprintf("%.2f%s", sim, unit), apart, verdict, about
        }'
}

said=$(mktemp)
trap 'rm -f "$said"' EXIT
within=0
# shellcheck disable=SC2059 # one form for all lines
printf "$table" file metric live simulated difference within case
for file in "${files[@]}"; do
    name=$(basename "$file" .fabric.yaml)
    status=0
    csv=$("$heddle" -o csv compare --quiet --overwrite "$file" 2>"$said") || status=$?
    case $status in
        0) within=$((within + 1)) ;;
        1) ;;
        *) cat "$said" >&2 ;;
    esac
    [[ -z $csv ]] || rows "$name" <<<"$csv"
done
echo "$within of ${#files[@]} within"
[[ $((12 * (${#files[@]} - within))) -le ${#files[@]} ]]
