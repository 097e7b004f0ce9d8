#!/usr/bin/env bash
# Tests the Python package: lints, types (mypy --strict), and pytest with networks that run, docs/python.md among them.
#
#   scripts/python.sh [ARGUMENT...]     the arguments are pytest's; HEDDLE_PROGRAM says which program [default: the newest in target/]
#   scripts/python.sh --tools           install pytest, mypy, ruff, maturin, .. and print where they are
#
# They are installed below the build folder from the Python package index, by version and hash (python/requirements.txt). Status 3: no Python here that can make an environment.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
folder=$target/tools-python

python=
for candidate in python3 python3.13 python3.12 python3.11 python3.10; do
    if command -v "$candidate" >/dev/null && "$candidate" -c 'import sys, venv, pip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
        python=$candidate && break
    fi
done
[[ -n $python ]] || { echo "python.sh: SKIPPED: no Python of 3.10 or newer with pip and venv (apt-get install python3-pip python3-venv)" >&2; exit 3; }

if ! cmp -s python/requirements.txt "$folder/installed"; then
    rm -rf "$folder"
    "$python" -m venv --without-pip "$folder" >&2
    if ! "$python" -m pip --python "$folder/bin/python3" install --quiet --disable-pip-version-check --no-deps --only-binary :all: \
        --require-hashes --requirement python/requirements.txt >"$folder/log" 2>&1; then
        tail -n 15 "$folder/log" >&2
        echo "python.sh: python/requirements.txt cannot be installed. hint: the Python package index has to be reachable" >&2
        exit 1
    fi
    cp python/requirements.txt "$folder/installed"
fi
if [[ ${1-} == --tools ]]; then
    echo "$folder/bin"
    exit
fi

cd python
export PYTHONDONTWRITEBYTECODE=1
"$folder/bin/ruff" check --quiet --no-cache .
"$folder/bin/mypy" --cache-dir "$folder/mypy" --no-error-summary
# As a program is found on the PATH by what a page's shell commands call.
PYTHONPATH=$PWD exec "$folder/bin/python3" -m pytest -p no:cacheprovider "$@"
