#!/usr/bin/env bash
# Compiles and tests what is behind the feature `dpdk`, in a target folder of its own: ports on devices of DPDK, and guests that are DPDK programs.
#
#   scripts/dpdk.sh [FILTER]     a filter of cargo-nextest in place of all tests about DPDK
#
# As root it installs what is missing (Debian's libdpdk-dev, pkgconf, dpdk-dev); for everybody else it says what to ask for. Tests that need root are skipped without it.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=()
pkg-config --exists libdpdk 2>/dev/null || packages+=(libdpdk-dev pkgconf)
command -v dpdk-testpmd >/dev/null || packages+=(dpdk-dev)
if [[ ${#packages[@]} -gt 0 ]]; then
    if [[ $(id -u) -ne 0 ]]; then
        echo "missing: sudo apt-get install ${packages[*]}" >&2
        exit 1
    fi
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "${packages[@]}"
fi

# Warnings of what only this compiles are errors as elsewhere.
export RUSTC_WORKSPACE_WRAPPER=$PWD/scripts/clippy-rustc.sh
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target/dpdk}
PATH=$(scripts/tools.sh):$PATH
export PATH
cargo nextest run --locked -p heddle-live --features dpdk --no-fail-fast -E "${1-test(/dpdk/)}"
