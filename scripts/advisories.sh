#!/usr/bin/env bash
# Checks Cargo.lock against RustSec's advisory database, and for versions that were yanked: `make lint` runs it.
#
#   scripts/advisories.sh             with the database from where RustSec keeps it
#   ADVISORY_DB=FOLDER ...            with a clone of it that lies in FOLDER
#
# Where the database cannot be reached it says so, and checks only the few advisories that lie in scripts/advisories, and yanked
# versions: no failure, but not the whole. Exceptions and their reasons stand in deny.toml.
set -euo pipefail
cd "$(dirname "$0")/.."
origin=https://github.com/RustSec/advisory-db

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# check SOURCE: with a database that is cloned from SOURCE; nothing is kept from one run to the next. An exception that nothing
# needs any more is an error.
check() {
    sed "s|^\[advisories\]\$|&\ndb-path = \"$work/databases\"|" deny.toml >"$work/deny.toml"
    GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0="url.$1.insteadOf" GIT_CONFIG_VALUE_0=$origin \
        cargo-deny --locked --config "$work/deny.toml" check --hide-inclusion-graph \
        --deny advisory-not-detected advisories
}

database=${ADVISORY_DB:-$origin}
if GIT_TERMINAL_PROMPT=0 timeout 20 git ls-remote --exit-code "$database" HEAD >/dev/null 2>"$work/log"; then
    check "$database"
    echo "advisories: checked against $database"
    exit
fi
if [[ -n ${ADVISORY_DB-} ]]; then
    cat "$work/log" >&2
    echo "advisories.sh: ADVISORY_DB=$ADVISORY_DB is no clone of $origin" >&2
    exit 1
fi

git -C "$work" init --quiet --initial-branch main known
cp -R scripts/advisories/crates "$work/known/"
git -C "$work/known" add --all
git -C "$work/known" -c user.name=none -c user.email=none commit --quiet --message "Known advisories"
check "$work/known"
echo "advisories: the database cannot be reached, NOT checked (only the known ones and yanked versions): $(tail -n 1 "$work/log")"
