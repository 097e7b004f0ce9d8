#!/usr/bin/env bash
# The first hour of somebody who has just got the program: does what the pages for newcomers promise, as an ordinary user without root, in a folder of its own, and leaves
# nothing behind: no file, no process, no network namespace.
#
#   scripts/first-hour.sh [HEDDLE]     the program [default: target/debug/heddle]
#
# Called by root, it does all of it as the user nobody. Status 3: users can't have networks on this machine.
set -euo pipefail
cd "$(dirname "$0")/.."
heddle=$(realpath "${1:-${CARGO_TARGET_DIR:-target}/debug/heddle}")
[[ -x $heddle ]] || { echo "first-hour.sh: $heddle is not there: \`cargo build\` makes it" >&2; exit 2; }

folder=$(mktemp -d "${TMPDIR:-/tmp}/heddle-first-hour.XXXXXX")
cleanup() { rm -rf "$folder"; }
trap cleanup EXIT

if [[ $(id -u) -eq 0 && ${HEDDLE_FIRST_HOUR:-} != inner ]]; then
    # Another user can't enter the folders that lead to the program.
    install -m 755 "$heddle" "$folder/heddle"
    mkdir "$folder/home" "$folder/scripts"
    install -m 755 scripts/first-hour.sh "$folder/scripts/first-hour.sh"
    chmod 755 "$folder" "$folder/scripts"
    chown nobody "$folder/home"
    setpriv --reuid nobody --regid "$(id -g nobody)" --clear-groups \
        env -i PATH="$PATH" HOME="$folder/home" TMPDIR="$folder/home" HEDDLE_FIRST_HOUR=inner "$folder/scripts/first-hour.sh" "$folder/heddle"
    exit
fi

if ! unshare --user --map-root-user --net true 2>/dev/null || [[ ! -w /dev/net/tun ]]; then
    echo "first-hour.sh: SKIPPED: this user may not have networks here (user namespaces, /dev/net/tun)" >&2
    exit 3
fi

export HOME=$folder XDG_RUNTIME_DIR=$folder/run NO_COLOR=1
unset HEDDLE_NETWORK HEDDLE_LOG
mkdir -m 700 "$XDG_RUNTIME_DIR" "$folder/bin" "$folder/work"
ln -s "$heddle" "$folder/bin/heddle"
PATH=$folder/bin:$PATH
cd "$folder/work"

# Whatever happens, networks end.
stop() {
    heddle down --all >/dev/null 2>&1 || true
    heddle clean >/dev/null 2>&1 || true
    cd /
    cleanup
}
trap stop EXIT

step=0
# Says what is done; what it prints is shown if it fails, or lacks one of the words behind `--`.
say() {
    local words=()
    local command=()
    while [[ $# -gt 0 && $1 != -- ]]; do
        command+=("$1")
        shift
    done
    [[ $# -eq 0 ]] || words=("${@:2}")
    step=$((step + 1))
    local output
    if ! output=$("${command[@]}" 2>&1); then
        printf 'first-hour.sh: step %s failed: %s\n%s\n' "$step" "${command[*]}" "$output" >&2
        exit 1
    fi
    local word
    for word in ${words[@]+"${words[@]}"}; do
        if [[ $output != *"$word"* ]]; then
            printf 'first-hour.sh: step %s: %s does not say "%s":\n%s\n' "$step" "${command[*]}" "$word" "$output" >&2
            exit 1
        fi
    done
    printf '%2s  %s\n' "$step" "${command[*]}"
}

# A file, a network, and who reaches whom.
say heddle new lab -- "Wrote lab.fabric.yaml"
say heddle check lab.fabric.yaml -- "4 hosts, 4 switches, 8 links"
say heddle plan lab.fabric.yaml
say heddle up lab.fabric.yaml -- "lab is up"
say heddle up lab.fabric.yaml -- "nothing to change"
say heddle list -- lab
say heddle ping --all -- "12/12 received"
say heddle exec h1 hostname -- h1
say heddle exec h1 ip -brief address show eth0 -- "10.0."
say heddle path h1 h3 --port 5201 --source-port 40000 -- "h1 - leaf1"
if command -v iperf3 >/dev/null; then
    say heddle iperf h1 h3 -t 1 -- received
fi

# Cables.
say heddle link down leaf1 spine1 -- "is down"
say heddle ping --all -- "12/12 received"
say heddle link up leaf1 spine1 -- "is up"
say heddle link set h1 leaf1 delay=20ms loss=0.1% -- "the file says delay=100us"
say heddle link show h1 leaf1 -- "delay=20ms"
say heddle up lab.fabric.yaml -- "changed link h1-leaf1"

# A look inside.
heddle exec h1 ping -4 -i 0.02 h3 >/dev/null 2>&1 &
pings=$!
say heddle capture h1-leaf1 icmp -c 4 -w h1.pcapng -- "4 frames captured, 0 lost"
kill "$pings" 2>/dev/null || true
wait "$pings" 2>/dev/null || true
say heddle show counters -o csv -- from,to,packets
say heddle show routes -- leaf1
say heddle graph -w lab.svg
say heddle down -- "lab is down"

# Programs of hosts, networks in a word, networks of others.
cat > web.fabric.yaml <<'FILE'
nodes:
  server:
    kind: host
    programs: { says: "cat /etc/heddle-first-hour; exec sleep 1000" }
    files: { /etc/heddle-first-hour: hello }
    sysctls: { net.ipv4.ip_forward: 1 }
  client: host
links: [{ between: [server, client] }]
FILE
say heddle up web.fabric.yaml -- "web is up"
say heddle show programs -- running
say heddle logs -- "says |"
say heddle exec server cat /etc/heddle-first-hour -- hello
say heddle exec server cat /proc/sys/net/ipv4/ip_forward -- 1
say heddle exec client sh -c '! test -e /etc/heddle-first-hour'
# Subnets and a router.
cat > routed.fabric.yaml <<'FILE'
nodes:
  h1: { kind: host, ipv4: 10.0.1.1/24, routes: [default via 10.0.1.254] }
  h2: { kind: host, ipv4: 10.0.2.1/24, routes: [default via 10.0.2.254] }
  r1: { kind: host, forward: true, interfaces: { s1: { ipv4: 10.0.1.254/24 }, s2: { ipv4: 10.0.2.254/24 } } }
  s1: switch
  s2: switch
links: [{ between: [h1, s1] }, { between: [r1, s1] }, { between: [r1, s2] }, { between: [h2, s2] }]
FILE
say heddle up routed.fabric.yaml -- "routed is up"
say heddle exec --name routed h1 ping -4 -c 1 h2 -- "ttl=63"
say heddle down routed -- "routed is down"
# An image as a root, where there is a busybox that needs nothing else.
if command -v busybox >/dev/null && ! ldd "$(command -v busybox)" >/dev/null 2>&1; then
    mkdir -p image/bin
    cp "$(command -v busybox)" image/bin/busybox
    ln -s busybox image/bin/sh
    tar --sort=name --mtime=@0 -C image -cf layer.tar .
    printf '{"config": {"Env": ["PATH=/bin"]}, "rootfs": {"diff_ids": ["sha256:%s"]}}' "$(sha256sum layer.tar | cut -d ' ' -f 1)" > config.json
    printf '[{"Config": "config.json", "Layers": ["layer.tar"]}]' > manifest.json
    tar -cf busybox.tar manifest.json config.json layer.tar
    printf 'nodes: { h1: { kind: host, image: busybox.tar }, h2: host }\nlinks: [{ between: [h1, h2] }]\n' > image.fabric.yaml
    say heddle up image.fabric.yaml -- "image is up"
    say heddle exec --name image h1 sh -c 'busybox ls /; busybox hostname' -- h1
    say heddle down image -- "image is down"
fi
# The world outside, where pasta is there.
if command -v pasta >/dev/null; then
    printf 'nodes: { h1: { kind: host, uplink: nat }, h2: host }\nlinks: [{ between: [h1, h2] }]\n' > out.fabric.yaml
    say heddle up out.fabric.yaml -- "out is up"
    say heddle show programs -n out -- uplink
    say heddle down out -- "out is down"
fi
say heddle up --topo tree,2 -- "tree-2 is up"
say heddle ping --all -n tree-2 -- "12/12 received"
say heddle down --all -- "tree-2 is down" "web is down"
cat > two.clab.yml <<'FILE'
topology:
  nodes: { a: { kind: linux }, b: { kind: linux }, s: { kind: bridge } }
  links: [{ endpoints: ["a:eth1", "s:e1"] }, { endpoints: ["b:eth1", "s:e2"] }]
FILE
say heddle import two.clab.yml -- "Wrote two.fabric.yaml"
say heddle up two.fabric.yaml -- "two is up"
say heddle ping a b -c 1 -- "1/1 received"
say heddle down -- "two is down"

# Mistakes are answered.
printf 'topology: { fat-tree: { k: 3 } }\n' > wrong.fabric.yaml
say bash -c '! heddle check wrong.fabric.yaml' -- "even number" "wrong.fabric.yaml:1"
say bash -c '! heddle exec h1 true' -- "no network is running"

# An experiment, its report, and what was there before.
say heddle run lab.fabric.yaml --sim -q -- "expectations are met" "results/lab/report.html"
say heddle run lab.fabric.yaml --sim -q -- "Earlier results"
say heddle report results/lab -- "report.html"
say heddle schema -- "Heddle fabric file"

# Nothing stays.
say heddle list
left=$(find "$XDG_RUNTIME_DIR" -mindepth 2 2>/dev/null || true)
if [[ -n $left ]]; then
    printf 'first-hour.sh: this is left behind:\n%s\n' "$left" >&2
    exit 1
fi
if grep -lsF "$folder" /proc/[0-9]*/mountinfo >/dev/null; then
    echo "first-hour.sh: a process of a host still runs" >&2
    exit 1
fi
echo "first-hour.sh: all $step steps did what the pages say"
