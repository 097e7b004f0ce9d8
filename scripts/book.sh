#!/usr/bin/env bash
# Makes a book of the docs with mdBook: `scripts/book.sh [FOLDER]`; it is written below the build folder if no folder is given.
# The reference of commands and of the file is written by the program itself (`heddle reference`), so it is that of this very version.
# HEDDLE says which program. Builds mdBook below the build folder if there is none (some minutes).
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
folder=$(realpath -m "${1:-$target/book}")
version=0.4.52

heddle=${HEDDLE:-}
if [[ -z $heddle ]]; then
    for build in release demo debug; do
        if [[ -x $target/$build/heddle ]]; then heddle=$target/$build/heddle && break; fi
    done
fi
[[ -n $heddle ]] || { echo "book.sh: no heddle in $target. hint: make build" >&2; exit 1; }

mdbook=$(command -v mdbook || true)
if [[ -z $mdbook ]]; then
    mdbook=$target/tools-book/bin/mdbook
    if [[ ! -x $mdbook ]]; then
        echo "book.sh: building mdBook $version" >&2
        cargo install --quiet --locked --version "$version" --no-default-features --features search --root "$target/tools-book" mdbook
    fi
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# As in the project, so that links between pages lead where they lead there.
mkdir "$work/src"
cp -r README.md CHANGELOG.md CONTRIBUTING.md docs fabrics benches "$work/src/"
rm -r "$work/src/docs/book"
sed -i 's|](docs/decisions)|](docs/decisions.md)|' "$work/src/README.md"
cp docs/book/book.toml docs/book/book.css "$work/"
"$heddle" reference "$work/src/reference"

entries() { # what stands for `<!-- reference -->` and `<!-- decisions -->`
    case $1 in
        reference) sed 's|](|](reference/|' "$work/src/reference/SUMMARY.md" ;;
        decisions)
            local page
            for page in docs/decisions/*.md; do printf '  - [%s](%s)\n' "$(sed -n '1s/^# //p' "$page")" "$page"; done
            ;;
    esac
}
while IFS= read -r line; do
    case $line in
        '<!-- '*' -->')
            line=${line#<!-- }
            entries "${line% -->}"
            ;;
        *) printf '%s\n' "$line" ;;
    esac
done <docs/book/SUMMARY.md >"$work/src/SUMMARY.md"
rm "$work/src/reference/SUMMARY.md"
{
    echo '# Decisions'
    echo
    echo 'What was decided and why, half a page each.'
    echo
    entries decisions | sed 's/^  - /- /; s|](docs/|](|'
} >"$work/src/docs/decisions.md"

rm -rf "$folder"
"$mdbook" build --dest-dir "$folder" "$work" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
grep -E 'WARN|ERROR' "$work/log" >&2 && exit 1
echo "$folder/index.html"
