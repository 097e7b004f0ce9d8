# shellcheck shell=bash
# shellcheck disable=SC2034  # What is set here is used by them.
# What scripts of benches have in common; they read it with `source`.

# Has Debian's packages for these programs, each given as PROGRAM:PACKAGE, installed where they are missing; says which ones are still missing, and ends with status 3.
need() {
    local packages
    mapfile -t packages < <(lacking "$@")
    if [[ ${#packages[@]} -gt 0 ]] && command -v apt-get >/dev/null; then
        echo "installing ${packages[*]}" >&2
        # RUNLEVEL: servers among them are not started.
        { apt-get update && DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y --no-install-recommends "${packages[@]}"; } </dev/null >/dev/null 2>&1 || true
        mapfile -t packages < <(lacking "$@")
    fi
    if [[ ${#packages[@]} -gt 0 ]]; then
        echo "${0##*/}: missing: ${packages[*]}" >&2
        echo "hint: install these packages of Debian, or what your distribution calls them" >&2
        exit 3
    fi
}

# Packages of those programs that are not there.
lacking() {
    local entry
    for entry; do
        PATH=$PATH:/usr/sbin:/sbin command -v "${entry%%:*}" >/dev/null || echo "${entry#*:}"
    done
}

# A folder in $work, and the numbers of processes in $pids, which end with the script.
begin() {
    work=$(mktemp -d)
    pids=()
    trap end EXIT
}

end() {
    local pid
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait
    rm -r "$work"
}

# Starts a program of heddle that listens; the addresses that it has are in $started.
start() {
    local out
    out=$(mktemp -p "$work")
    "$@" >"$out" &
    pids+=($!)
    until grep -q '^Listening at ' "$out"; do
        kill -0 $! || return 1
        sleep 0.02
    done
    started=$(sed -n 's/^Listening at //p' "$out" | tr -d ,)
}

# A port that is free now.
port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# Prints the median of a file's numbers, a line each, and the least and the greatest of them: what it is, and the file.
median_row() {
    sort -g "$2" | awk -v what="$1" '{ v[NR] = $1 } END { printf "%-56s %10.2f (%.2f .. %.2f)\n", what, v[int((NR + 1) / 2)], v[1], v[NR] }'
}
