#!/usr/bin/env bash
# Licences, sources, advisories, spelling and scripts. `make lint` runs it, with the programs of scripts/tools.sh.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo-deny --locked --log-level error check --hide-inclusion-graph bans licenses sources
scripts/advisories.sh
# The fuzz targets are a workspace of their own, whose lock file nothing else reads.
cargo update --quiet --workspace --locked --manifest-path fuzz/Cargo.toml
typos
mapfile -t scripts < <(git ls-files -- '*.sh' .ci/run)
shellcheck "${scripts[@]}"
echo "lint: licences, sources, spelling and ${#scripts[@]} scripts are fine"
