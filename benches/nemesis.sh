#!/usr/bin/env bash
# Injects faults into real controllers and judges the answers of their clients, by Porcupine and by a checker of Heddle:
#
#   benches/nemesis.sh [-duration 1h] [-seed N] [-servers 3..9] [-clients N] [-faults all|kill,cut,..] [-keep FOLDER]
#
# `benches/nemesis.sh -help` shows all options. It needs root, go, iproute2, nftables, util-linux. All its traffic, mounts and
# processes are in namespaces that vanish with it, also after Ctrl-C. HEDDLE and JUDGE name programs that are built already.
# Exit status 0: no violation; 1: violations, whose logs and histories are kept in -keep (nemesis-failure).
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
target=${CARGO_TARGET_DIR:-$here/target}
mkdir -p "$target"

for program in go ip nft tc nsenter unshare; do
    PATH=$PATH:/usr/sbin:/sbin command -v "$program" >/dev/null || {
        echo "nemesis.sh: $program is missing" >&2
        echo "hint: apt-get install golang iproute2 nftables util-linux" >&2
        exit 3
    }
done
(cd "$here/benches/nemesis" && go build -o "$target/nemesis" .)
if [[ -z ${HEDDLE-} ]]; then
    (cd "$here" && cargo build --locked --release --package heddle)
    HEDDLE=$target/release/heddle
fi
if [[ -z ${JUDGE-} ]]; then
    (cd "$here" && cargo build --locked --release --package heddle-sim --example judge)
    JUDGE=$target/release/examples/judge
fi
exec "$target/nemesis" -heddle "$HEDDLE" -judge "$JUDGE" "$@"
