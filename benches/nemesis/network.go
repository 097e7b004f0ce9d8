package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
)

// Everything runs in namespaces of this program's own (main.go): the bridge and the clients in one network namespace, each server in
// another. No packet leaves them, and they vanish with the program.
//
//	clients 10.77.0.100 -- bridge -- veth -- server N, 10.77.0.N
const (
	bridge        = "nemesis"
	clientAddress = "10.77.0.100"
	port          = 6640
)

func serverAddress(server int) string { return fmt.Sprintf("10.77.0.%d", server) }
func namespace(server int) string     { return fmt.Sprintf("server%d", server) }

func run(name string, arguments ...string) error { return runWith("", name, arguments...) }

// runWith runs a program that reads `input`; what it says is the error.
func runWith(input, name string, arguments ...string) error {
	command := exec.Command(name, arguments...)
	command.Stdin = strings.NewReader(input)
	var said bytes.Buffer
	command.Stdout, command.Stderr = &said, &said
	if err := command.Run(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(arguments, " "), err, strings.TrimSpace(said.String()))
	}
	return nil
}

// network is what servers hear of each other and of clients. Number 0 stands for all clients.
type network struct {
	mutex   sync.Mutex
	servers int
	// cut[to][from]: nothing from there is heard. loss: so many per cent are not.
	cut  [][]bool
	loss []int
}

func newNetwork(servers int) (*network, error) {
	n := &network{servers: servers, cut: make([][]bool, servers+1), loss: make([]int, servers+1)}
	for i := range n.cut {
		n.cut[i] = make([]bool, servers+1)
	}
	// `ip netns` keeps its names here; in our mount namespace nobody else sees them.
	if err := os.MkdirAll("/run/netns", 0o755); err != nil {
		return nil, err
	}
	if err := syscall.Mount("nemesis", "/run/netns", "tmpfs", 0, ""); err != nil {
		return nil, fmt.Errorf("mount /run/netns: %w", err)
	}
	commands := []string{
		"ip link set lo up",
		"ip link add " + bridge + " type bridge",
		"ip address add " + clientAddress + "/24 dev " + bridge,
		"ip link set " + bridge + " up",
	}
	for server := 1; server <= servers; server++ {
		name := namespace(server)
		commands = append(commands,
			"ip netns add "+name,
			fmt.Sprintf("ip link add port%d type veth peer name eth0 netns %s", server, name),
			fmt.Sprintf("ip link set port%d master %s up", server, bridge),
			fmt.Sprintf("ip -n %s address add %s/24 dev eth0", name, serverAddress(server)),
			fmt.Sprintf("ip -n %s link set eth0 up", name),
			fmt.Sprintf("ip -n %s link set lo up", name))
	}
	for _, command := range commands {
		words := strings.Fields(command)
		if err := run(words[0], words[1:]...); err != nil {
			return nil, err
		}
	}
	return n, n.apply()
}

// change alters cuts and losses, and puts them into force.
func (n *network) change(alter func()) error {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	alter()
	return n.apply()
}

// apply writes every server's rules, each in one step.
func (n *network) apply() error {
	for server := 1; server <= n.servers; server++ {
		rules := "flush ruleset\ntable ip nemesis { chain input { type filter hook input priority 0;\n"
		for from := 0; from <= n.servers; from++ {
			if from != server && n.cut[server][from] {
				address := clientAddress
				if from > 0 {
					address = serverAddress(from)
				}
				rules += fmt.Sprintf("ip saddr %s drop\n", address)
			}
		}
		if n.loss[server] > 0 {
			rules += fmt.Sprintf("iifname eth0 numgen random mod 100 < %d drop\n", n.loss[server])
		}
		if err := runWith(rules+"}\n}\n", "ip", "netns", "exec", namespace(server), "nft", "-f", "-"); err != nil {
			return err
		}
	}
	return nil
}

// slow lets a server send so many kilobits a second, with a queue of half a second; 0 lifts that.
func (n *network) slow(server, kilobits int) error {
	arguments := []string{"-n", namespace(server), "qdisc"}
	if kilobits == 0 {
		return run("tc", append(arguments, "del", "dev", "eth0", "root")...)
	}
	return run("tc", append(arguments, "add", "dev", "eth0", "root", "tbf", "rate", fmt.Sprintf("%dkbit", kilobits), "burst", "8k",
		"latency", "500ms")...)
}

// heal lifts all cuts and losses.
func (n *network) heal() error {
	return n.change(func() {
		for to := range n.cut {
			clear(n.cut[to])
		}
		clear(n.loss)
	})
}
