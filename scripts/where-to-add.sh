#!/usr/bin/env bash
# Adds one of each thing that docs/architecture.md says where to add (crates/heddle/tests/where_to_add/*.patch), each by itself and to a copy of
# the tree: it has to compile without a warning, and the tests of the crates that it touches have to pass, its own among them. `make where-to-add`.
#
#   scripts/where-to-add.sh [NAME...]      all of them, or these: metric port-type
set -euo pipefail
cd "$(dirname "$0")/.."

patches=$PWD/crates/heddle/tests/where_to_add
# What comes from elsewhere is compiled once for both trees.
CARGO_TARGET_DIR=$(realpath -m "${CARGO_TARGET_DIR:-target}")
# What is generated may change: snapshots of the schema and of messages that list all words.
export CARGO_TARGET_DIR INSTA_UPDATE=always
if [[ $# -eq 0 ]]; then
    mapfile -t names < <(cd "$patches" && printf '%s\n' *.patch | sed 's/\.patch$//')
    set -- "${names[@]}"
fi

copy=$CARGO_TARGET_DIR/where-to-add
log=$CARGO_TARGET_DIR/where-to-add.log
rm -rf "$copy"
mkdir -p "$copy"
# New times, or cargo would take what was compiled of a patch for what is there.
git ls-files -z --cached --others --exclude-standard |
    tar --create --null --files-from=- --ignore-failed-read | tar --extract --touch --directory="$copy"
cd "$copy"
git init --quiet
git add --all

failed=0
for name in "$@"; do
    patch=$patches/$name.patch
    head=$(sed '/^diff /,$d' "$patch")
    read -ra arguments <<<"$(sed -n 's/^Cargo: //p' <<<"$head")"
    test=$(sed -n 's/^Test: //p' <<<"$head")
    git checkout --quiet -- .
    git clean --quiet -d --force
    git apply "$patch"
    if ! cargo "${arguments[@]}" --locked >"$log" 2>&1; then
        grep -E '^(error|warning: unused)|^ +--> |FAILED|panicked' "$log" || tail -n 20 "$log"
        echo "where-to-add: $name: it does not compile, or a test fails ($log)"
        failed=1
    elif ! grep -qE "^test (.*::)?$test \.\.\. ok$" "$log"; then
        echo "where-to-add: $name: its test $test has not run ($log)"
        failed=1
    else
        echo "where-to-add: $name: $(sed '/^$/,$d' <<<"$head") $(grep -c '^+++ ' "$patch") files, $(grep -c '^test .* ok$' "$log") tests"
    fi
done
exit "$failed"
