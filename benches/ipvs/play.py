"""Plays a script of crates/balance/examples/choose.rs to IPVS, and prints what choose.rs prints: who got each connection, and the counts.

A client that closes resets its connection: that is inactive for ten seconds, and then gone.
"""

import socket
import struct
import subprocess
import sys
import time

# All schedulers are played at once: each has a port of its own, and so have its clients, whom servers would take for one another otherwise.
NUMBERS = {name: n for n, name in enumerate(("rr", "wrr", "lc", "wlc", "sed", "nq", "sh", "mh"))}
CLIENT_PORTS = 8000
# A connection that is refused is answered at once; nobody needs this long.
PATIENCE_S = 5
FLUSH_S_MAX = 60


def ipvsadm(*arguments):
    """Runs ipvsadm in the namespace of the balancer."""
    command = ["nsenter", "--net=/proc/1/ns/net", "ipvsadm", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def counts(service):
    """Active and inactive connections of each server."""
    found = {}
    for line in ipvsadm("-Ln", "-t", service).splitlines():
        words = line.split()
        if words[:1] == ["->"] and words[1].startswith("10.2."):
            found[int(words[1].split(":")[0].rsplit(".", 1)[1])] = (int(words[4]), int(words[5]))
    return found


def connect(service, address, port):
    """Opens a connection, and asks who has it."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    client.settimeout(PATIENCE_S)
    client.bind((address, port))
    try:
        client.connect(service)
    except OSError:
        client.close()
        return None, "none"
    return client, client.makefile().readline().strip().rsplit(".", 1)[1]


def reset(client):
    """Ends a connection at once."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def main():
    scheduler = sys.argv[1]
    own_number = NUMBERS[scheduler]
    address_of_service = ("10.0.0.1", 80 + own_number)
    service = "{}:{}".format(*address_of_service)
    ipvsadm("-A", "-t", service, "-s", scheduler)
    limits, clients = {}, {}
    for line in sys.stdin:
        match line.split():
            case ["add", server, weight, upper, lower]:
                limits[server] = ["-x", upper, "-y", lower]
                ipvsadm("-a", "-t", service, "-r", f"10.2.0.{server}:80", "-m", "-w", weight, *limits[server])
            case ["weight", server, weight]:
                ipvsadm("-e", "-t", service, "-r", f"10.2.0.{server}:80", "-m", "-w", weight, *limits[server])
            case ["del", server]:
                ipvsadm("-d", "-t", service, "-r", f"10.2.0.{server}:80")
            case ["open", number, address, port]:
                clients[number], server = connect(address_of_service, address, int(port) + CLIENT_PORTS * own_number)
                print(number, server)
            case ["close", number]:
                if client := clients.pop(number, None):
                    reset(client)
            case ["counts"]:
                print("counts", *(f"{server}={a}/{i}" for server, (a, i) in sorted(counts(service).items())))
            case ["flush"]:
                deadline = time.monotonic() + FLUSH_S_MAX
                while any(inactive for _, inactive in counts(service).values()) and time.monotonic() < deadline:
                    time.sleep(0.2)
    for client in filter(None, clients.values()):
        reset(client)
    sys.stdout.flush()


main()
