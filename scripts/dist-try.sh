#!/usr/bin/env bash
# Tries what scripts/dist.sh made, each where nothing else of Heddle is: the archive in an empty root, the package in a new Debian, the image in its own root, the wheel in a
# new environment with the Python package's own tests. In each a network runs, if networks can run here.
#
#   scripts/dist-try.sh [archive] [deb] [image] [wheel]      [default: all of them]
#
# Needs root for all but the wheel. What could not be tried is said, and is status 3 if nothing failed.
set -euo pipefail
cd "$(dirname "$0")/.."

out=$PWD/target/dist
machine=$(uname -m)
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
suite=${SUITE:-bookworm}

wanted=("$@")
[[ ${#wanted[@]} -gt 0 ]] || wanted=(archive deb image wheel)

work=$(mktemp -d)
# What is mounted below it is so in other mount namespaces only; if that were not so, it would stay.
trap 'grep -qF " $work/" /proc/self/mountinfo || rm -rf "$work"' EXIT

skipped=0
skip() {
    echo "dist-try.sh: SKIPPED $1: $2" >&2
    skipped=$((skipped + 1))
}
ok() { printf '%-8s %s\n' "$1" "$2"; }
# The newest file of a pattern.
made() {
    local file
    file=$(compgen -G "$out/$1" | head -n1) || { echo "dist-try.sh: no $out/$1: \`make dist\` makes it" >&2; exit 1; }
    echo "$file"
}

# A root of its own, with /proc and what a network needs of /dev, and without the machine's network and processes.
# `in_root ROOT COMMAND..`
in_root() {
    local root=$1
    shift
    # shellcheck disable=SC2016
    unshare --mount --pid --ipc --uts --net --fork --kill-child bash -ec '
        root=$1; shift
        # A container has a mount as its root, and hosts change how theirs propagates.
        mount --bind "$root" "$root"
        mount -t proc proc "$root/proc"
        mount -t tmpfs -o mode=755 dev "$root/dev"
        for device in null zero random urandom tty; do
            touch "$root/dev/$device" && mount --bind "/dev/$device" "$root/dev/$device"
        done
        mkdir "$root/dev/net" "$root/dev/shm"
        if [[ -e /dev/net/tun ]]; then touch "$root/dev/net/tun" && mount --bind /dev/net/tun "$root/dev/net/tun"; fi
        exec chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root XDG_RUNTIME_DIR=/run XDG_STATE_HOME=/var/lib "$@"' try "$root" "$@"
}
may_run_live() { [[ -e /dev/net/tun ]] && unshare --net true 2>/dev/null; }

# What each program has to do, in any shell.
tour() {
    cat <<'TOUR'
set -e
cd /tmp
heddle --version | grep -q '^heddle VERSION'
heddle new lab > /dev/null
heddle check lab.fabric.yaml
heddle run lab.fabric.yaml --sim --quiet > table
grep -q 'expectations are met' table
heddle controller --listen 127.0.0.1:0 --data /tmp/c1 -o json > ready & controller=$!
until grep -qs listen ready; do sleep 0.1; done
kill $controller
wait $controller
if LIVE; then
    heddle up lab.fabric.yaml
    heddle ping --all
    heddle exec h1 hostname | grep -qx h1
    heddle exec h1 ping -c 1 h3 > /dev/null
    heddle down
fi
TOUR
}
tour_for_here() {
    local live=false
    if may_run_live; then live=true; fi
    tour | sed "s/VERSION/${version//./\\.}/; s/LIVE/$live/"
}

try_archive() {
    local root=$work/archive
    mkdir -p "$root"/{proc,dev,tmp}
    tar --extract --file "$(made "heddle-$version-$machine-linux.tar.gz")" --directory "$root" --strip-components=1
    # There is not even a shell: the program alone does it.
    try() { unshare --mount --pid --fork --kill-child chroot "$root" /bin/heddle "$@"; }
    try --version
    (cd "$root" && try new lab >/dev/null && try run lab.fabric.yaml --sim --quiet) | grep 'expectations are met'
    [[ -s $root/results/lab/report.html ]]
    [[ -s $root/share/man/man1/heddle-up.1 && -s $root/share/bash-completion/completions/heddle ]]
    ok archive "simulates in an empty root"
}

try_deb() {
    local root=$work/deb package
    package=$(made "heddle_${version}*_$(dpkg --print-architecture).deb")
    command -v debootstrap >/dev/null || apt-get install -y --no-install-recommends debootstrap >/dev/null 2>&1 </dev/null || true
    command -v debootstrap >/dev/null || { skip deb "debootstrap is missing (apt-get install debootstrap)"; return; }
    local mirror
    mirror=${MIRROR:-$(sed -nE 's/^(deb( \[[^]]*\])? |URIs: )([^ ]+).*/\3/p' /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | head -n1 || true)}
    debootstrap --variant=minbase --include=iproute2,iputils-ping "$suite" "$root" ${mirror:+"$mirror"} >"$work/debootstrap.log" 2>&1 ||
        { tail -n 5 "$work/debootstrap.log" >&2; skip deb "debootstrap cannot make a Debian ${suite} here"; return; }
    # An installation has one; a new root has not.
    [[ -e $root/etc/hosts ]] || echo '127.0.0.1 localhost' >"$root/etc/hosts"
    cp "$package" "$root/heddle.deb"
    in_root "$root" dpkg --install /heddle.deb >/dev/null
    tour_for_here | in_root "$root" bash
    in_root "$root" dpkg --verify heddle
    # Debian's minimal images leave manual pages out: what the package has is what counts.
    local files file
    files=$(dpkg-deb --contents "$package")
    for file in man1/heddle.1 man1/heddle-up.1 completions/heddle vendor-completions/_heddle heddle.fish heddle-controller@.service examples/quickstart.fabric.yaml copyright changelog; do
        grep -q "/$file" <<<"$files" || { echo "dist-try.sh: $file is not in $package" >&2; exit 1; }
    done
    if command -v systemd-analyze >/dev/null; then
        # The program is where the unit says only in the new root.
        sed "s|/usr/bin/heddle |$root/usr/bin/heddle |" packaging/heddle-controller@.service >"$work/heddle-controller@try.service"
        systemd-analyze verify --man=no "$work/heddle-controller@try.service"
    fi
    in_root "$root" dpkg --purge heddle >/dev/null
    local left
    left=$(find "$root/usr" "$root/etc" -name '*heddle*')
    [[ -z $left ]] || { printf 'dist-try.sh: the package leaves behind:\n%s\n' "$left" >&2; exit 1; }
    ok deb "installs in a new Debian $suite with nothing else, runs, and leaves nothing behind"
}

try_image() {
    command -v umoci >/dev/null || { skip image "umoci is missing (apt-get install umoci)"; return; }
    local layout=$work/layout root=$work/image/rootfs
    mkdir "$layout"
    tar --extract --file "$(made "heddle-$version-$machine-oci.tar")" --directory "$layout"
    umoci --log=error unpack --image "$layout:heddle:$version" "$work/image"
    # As a runtime would: command, folder and environment are those of the image.
    python3 - "$work/image/config.json" <<'PYTHON'
import json, sys
process = json.load(open(sys.argv[1]))["process"]
assert process["args"] == ["/usr/bin/heddle", "--help"], process["args"]
assert process["cwd"] == "/work" and "XDG_RUNTIME_DIR=/run" in process["env"], process
PYTHON
    mkdir -p "$root/dev"
    tour_for_here | in_root "$root" sh
    ok image "runs in its own root"
}

try_wheel() {
    local wheel python=$work/python
    wheel=$(made "heddle-$version-py3-none-*.whl")
    python3 -m venv "$python"
    "$python/bin/pip" install --quiet --disable-pip-version-check "$wheel"
    # Neither the sources nor another program are in reach.
    (cd "$work" && env -i PATH=/usr/bin:/bin HOME="$work" "$python/bin/python" -c "
import heddle, pathlib
assert heddle.program() == pathlib.Path('$python/bin/heddle'), heddle.program()
assert '$version' in heddle.version()
results = heddle.run({'topology': {'single': {'hosts': 2}}, 'links': {'rate': '10Mbit', 'delay': '1ms', 'queue': 50},
    'experiments': {'one': {'traffic': {'pattern': 'stride(1)'}, 'warm-up': '0s', 'for': '1s', 'repeat': 5}}}, driver='sim')
assert results.summary.where(metric='goodput-mean')[0]['mean'] > 8e6, results.summary
import nanoarrow
assert nanoarrow.c_array_stream(results.flows).get_next().length == 10")
    cp -r python/tests "$work/tests"
    mkdir -p "$work/docs"
    "$python/bin/pip" install --quiet --disable-pip-version-check pytest pandas polars pyarrow
    # The tests look for the page two folders up.
    mkdir -p "$work/try/python" && mv "$work/tests" "$work/try/python/" && cp -r docs "$work/try/"
    (cd "$work/try/python" && HEDDLE_INSTALLED=1 PATH="$python/bin:$PATH" "$python/bin/python" -m pytest -q -p no:cacheprovider tests)
    ok wheel "installs with pip in a new environment, and passes the package's tests"
}

for what in "${wanted[@]}"; do
    case $what in
        archive | deb | image)
            if [[ $(id -u) -ne 0 ]]; then skip "$what" "only root can change the root folder"; continue; fi
            "try_$what"
            ;;
        wheel) try_wheel ;;
        *) sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    esac
done
[[ $skipped -eq 0 ]] || exit 3
