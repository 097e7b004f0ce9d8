#!/usr/bin/env bash
# Makes what is handed out, in target/dist: a static program (musl) in an archive with manual pages and completions, a Debian package, an OCI image, a wheel for Python.
#
#   scripts/dist.sh [archive] [deb] [image] [wheel]      [default: all of them]
#
# As root it installs what Debian packages it lacks (musl-tools, umoci, busybox-static); for everybody else it says what to ask for. scripts/dist-try.sh tries what it made.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
machine=$(uname -m)
triple=$machine-unknown-linux-musl
out=target/dist
# What the Debian package takes; its manifest names this folder.
package=target/package
cargo_deb=3.8.0
# Those who build with cargo alone have this version as well.
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)

fail() {
    echo "dist.sh: $1" >&2
    shift
    printf 'hint: %s\n' "$@" >&2
    exit 1
}
step() { printf '%-9s %s\n' "$1" "$2" >&2; }

wanted=("$@")
[[ ${#wanted[@]} -gt 0 ]] || wanted=(archive deb image wheel)
for what in "${wanted[@]}"; do
    [[ $what =~ ^(archive|deb|image|wheel)$ ]] || { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
done
wants() { [[ " ${wanted[*]} " == *" $1 "* ]]; }

# program:package
needed=(musl-gcc:musl-tools)
wants image && needed+=(umoci:umoci busybox:busybox-static)
packages() {
    local entry
    for entry in "${needed[@]}"; do command -v "${entry%%:*}" >/dev/null || echo "${entry##*:}"; done
    if wants image && command -v busybox >/dev/null && is_dynamic "$(command -v busybox)"; then echo busybox-static; fi
}
is_dynamic() { LC_ALL=C readelf --program-headers "$1" | grep -q INTERP; }
mapfile -t lacking < <(packages)
if [[ ${#lacking[@]} -gt 0 && $(id -u) -eq 0 ]]; then
    step packages "installing ${lacking[*]}"
    log=$(mktemp)
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update && apt-get install -y --no-install-recommends "${lacking[@]}"; } >"$log" 2>&1 </dev/null || tail -n 15 "$log" >&2
    rm -f "$log"
    mapfile -t lacking < <(packages)
fi
[[ ${#lacking[@]} -eq 0 ]] || fail "missing: ${lacking[*]}" "sudo apt-get install ${lacking[*]}"

if ! [[ -d $(rustc --print sysroot)/lib/rustlib/$triple ]]; then
    command -v rustup >/dev/null || fail "Rust's library for $triple is missing" "rustup target add $triple, or your distribution's package of it"
    step rust "adding $triple"
    rustup target add "$triple" >/dev/null 2>&1 || fail "Rust's library for $triple is missing" "rustup target add $triple"
fi

# One build for all four: a wheel's build finds everything there.
step build "heddle for $triple (some ten minutes at first)"
export CC_x86_64_unknown_linux_musl=musl-gcc CC_aarch64_unknown_linux_musl=musl-gcc
export CARGO_TARGET_DIR=$target
cargo build --locked --profile dist --target "$triple" --package heddle
heddle=$target/$triple/dist/heddle
! is_dynamic "$heddle" || fail "$heddle is not static"
mkdir -p "$out"
step version "$("$heddle" --version)"

rm -rf "$package"
share=$package/share
mkdir -p "$share/man/man1" "$share/bash-completion/completions" "$share/zsh/vendor-completions" "$share/fish/vendor_completions.d"
"$heddle" man "$share/man/man1"
"$heddle" completions bash >"$share/bash-completion/completions/heddle"
"$heddle" completions zsh >"$share/zsh/vendor-completions/_heddle"
"$heddle" completions fish >"$share/fish/vendor_completions.d/heddle.fish"

# The same sources give the same bytes.
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y Cargo.lock)}
export SOURCE_DATE_EPOCH=$epoch

made=()
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if wants archive; then
    name=heddle-$version-$machine-linux
    mkdir -p "$work/$name/bin"
    cp "$heddle" "$work/$name/bin/"
    cp -r "$share" packaging/heddle-controller@.service README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE "$work/$name/"
    tar --create --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$epoch" --directory "$work" "$name" | gzip -9n >"$out/$name.tar.gz"
    made+=("$out/$name.tar.gz")
fi

if wants deb; then
    if ! [[ -x $target/tools-deb/bin/cargo-deb ]] || [[ $("$target/tools-deb/bin/cargo-deb" --version) != "$cargo_deb" ]]; then
        step tools "building cargo-deb $cargo_deb (a minute or two)"
        cargo install --quiet --locked --version "$cargo_deb" --no-default-features --root "$target/tools-deb" cargo-deb
    fi
    PATH=$target/tools-deb/bin:$PATH cargo deb --quiet --locked --no-build --no-strip --profile dist --target "$triple" --manifest-path crates/heddle/Cargo.toml --output "$work/"
    deb=$(basename "$work"/*.deb)
    mv "$work/$deb" "$out/"
    made+=("$out/$deb")
fi

if wants image; then
    root=$work/root
    mkdir -p "$root"/{bin,etc,proc,root,run,sys,tmp,usr/bin,var/lib,work}
    chmod 1777 "$root/tmp"
    cp "$heddle" "$root/usr/bin/"
    # Programs for hosts, and a shell for `programs:`: a host has those of its image.
    cp "$(command -v busybox)" "$root/bin/busybox"
    "$root/bin/busybox" --list | while read -r program; do
        [[ $program == busybox ]] || ln -s busybox "$root/bin/$program"
    done
    echo 'root:x:0:0:root:/root:/bin/sh' >"$root/etc/passwd"
    echo 'root:x:0:' >"$root/etc/group"
    # The names of a network's hosts are laid over it.
    echo '127.0.0.1 localhost' >"$root/etc/hosts"
    find "$root" -exec touch --no-dereference --date="@$epoch" {} +
    layout=$work/layout
    umoci=(umoci --log=error)
    "${umoci[@]}" init --layout "$layout"
    "${umoci[@]}" new --image "$layout:heddle:$version"
    rootless=()
    [[ $(id -u) -eq 0 ]] || rootless=(--rootless)
    "${umoci[@]}" insert "${rootless[@]}" --image "$layout:heddle:$version" "$root" /
    "${umoci[@]}" config --image "$layout:heddle:$version" --config.entrypoint /usr/bin/heddle --config.cmd --help --config.workingdir /work \
        --config.env PATH=/usr/bin:/bin --config.env XDG_RUNTIME_DIR=/run --config.env XDG_STATE_HOME=/var/lib \
        --config.label org.opencontainers.image.title=heddle --config.label "org.opencontainers.image.version=$version" \
        --config.label org.opencontainers.image.licenses="MIT OR Apache-2.0" \
        --created "$(date --utc --date="@$epoch" +%Y-%m-%dT%H:%M:%SZ)"
    "${umoci[@]}" gc --layout "$layout"
    name=heddle-$version-$machine-oci.tar
    tar --create --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$epoch" --file "$out/$name" --directory "$layout" .
    made+=("$out/$name")
fi

if wants wheel; then
    maturin=$(scripts/python.sh --tools)/maturin
    (cd python && "$maturin" build --quiet --locked --profile dist --target "$triple" --compatibility linux --out "$work/wheel") >"$work/log" 2>&1 ||
        { cat "$work/log" >&2; exit 1; }
    # A static program asks nothing of a system's C library: old ones and musl's will do.
    platforms=manylinux_2_17_$machine.manylinux2014_$machine.musllinux_1_1_$machine
    "$(dirname "$maturin")/python3" -m wheel tags --remove --platform-tag "$platforms" "$work"/wheel/*.whl >/dev/null
    wheel=$(basename "$work"/wheel/*.whl)
    rm -f "$out"/heddle-*.whl
    mv "$work/wheel/$wheel" "$out/"
    made+=("$out/$wheel")
fi

(cd "$out" && sha256sum -- "${made[@]##*/}") >"$work/sums"
# Sums of what is there and was not made now stay.
{ grep -vFf <(printf '%s\n' "${made[@]##*/}") "$out/SHA256SUMS" 2>/dev/null || true; cat "$work/sums"; } | sort -k2 >"$work/all"
mv "$work/all" "$out/SHA256SUMS"
du --apparent-size --human-readable -- "${made[@]}"
