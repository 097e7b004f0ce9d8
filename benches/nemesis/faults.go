package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"sync/atomic"
	"time"
)

// fault is what the nemesis can do. `inject` gives what ends it, and a word about it.
type fault struct {
	name   string
	inject func(n *nemesis) (heal func() error, about string, err error)
	// It needs a cluster that works, and waits until it is done.
	administers bool
}

// nemesis injects faults one after another, sometimes two at once, and lets the cluster recover now and then.
type nemesis struct {
	random   *rand.Rand
	servers  *servers
	network  *network
	load     *load
	faults   []fault
	injected atomic.Int64
	counts   map[string]int
	failed   map[string]int
	logf     func(string, ...any)
}

var allFaults = []fault{
	{"kill", (*nemesis).kill, false},
	{"kill-all", (*nemesis).killAll, false},
	{"pause", (*nemesis).pause, false},
	{"cut-one-way", (*nemesis).cutOneWay, false},
	{"cut", (*nemesis).cutBothWays, false},
	{"isolate", (*nemesis).isolate, false},
	{"ring", (*nemesis).ring, false},
	{"halves", (*nemesis).halves, false},
	{"clients", (*nemesis).cutClients, false},
	{"loss", (*nemesis).lose, false},
	{"slow", (*nemesis).slow, false},
	{"full-disk", (*nemesis).fullDisk, false},
	{"file-limit", (*nemesis).limitFiles, false},
	{"clock", (*nemesis).clock, false},
	{"replace", (*nemesis).replace, true},
	{"move-shard", (*nemesis).moveShard, true},
	{"replicas", (*nemesis).replicas, true},
	{"move-leader", (*nemesis).moveLeader, true},
}

func faultNames() []string {
	var names []string
	for _, one := range allFaults {
		names = append(names, one.name)
	}
	return names
}

func chosenFaults(names string) ([]fault, error) {
	if names == "all" {
		return allFaults, nil
	}
	var chosen []fault
	for _, name := range strings.Split(names, ",") {
		at := slices.IndexFunc(allFaults, func(one fault) bool { return one.name == name })
		if at < 0 {
			return nil, fmt.Errorf("there is no fault %q\nhint: all, or some of %s", name, strings.Join(faultNames(), ","))
		}
		chosen = append(chosen, allFaults[at])
	}
	return chosen, nil
}

// between draws a time.
func (n *nemesis) between(least, most time.Duration) time.Duration {
	return least + time.Duration(n.random.Int64N(int64(most-least)))
}

func (n *nemesis) server() int { return 1 + n.random.IntN(len(n.servers.all)) }

// minority draws between one server and the most that the cluster can do without.
func (n *nemesis) minority() []int {
	numbers := n.random.Perm(len(n.servers.all))[:1+n.random.IntN(max((len(n.servers.all)-1)/2, 1))]
	for i := range numbers {
		numbers[i]++
	}
	return numbers
}

// run goes on until it is ended; then everything is healed.
func (n *nemesis) run(ended <-chan struct{}) {
	rest := func(time time.Duration) bool { return sleep(ended, time) }
	for {
		// A storm of faults, then peace.
		for range 3 + n.random.IntN(6) {
			if !n.strike(rest) {
				return
			}
		}
		n.recover()
		if err := n.lookForRemoved(); err != nil {
			n.logf("members: %v", err)
		}
		n.logf("peace")
		if !rest(n.between(2*time.Second, 9*time.Second)) {
			return
		}
	}
}

// sleep waits; false if the run has ended.
func sleep(ended <-chan struct{}, time_ time.Duration) bool {
	select {
	case <-ended:
		return false
	case <-time.After(time_):
		return true
	}
}

// strike injects one fault, or two that overlap.
func (n *nemesis) strike(rest func(time.Duration) bool) bool {
	first := n.faults[n.random.IntN(len(n.faults))]
	if first.administers && n.random.IntN(2) == 0 {
		n.recover()
	}
	heal := n.inject(first)
	if !first.administers && !rest(n.between(500*time.Millisecond, 7*time.Second)) {
		return false
	}
	if n.random.IntN(3) == 0 {
		second := n.faults[n.random.IntN(len(n.faults))]
		healSecond := n.inject(second)
		if !second.administers && !rest(n.between(500*time.Millisecond, 5*time.Second)) {
			return false
		}
		n.end(second, healSecond)
	}
	n.end(first, heal)
	return rest(n.between(100*time.Millisecond, 3*time.Second))
}

func (n *nemesis) inject(one fault) func() error {
	heal, about, err := one.inject(n)
	n.counts[one.name]++
	n.injected.Add(1)
	if err != nil {
		n.failed[one.name]++
		about += " failed: " + strings.Join(strings.Fields(err.Error()), " ")
	}
	n.logf("%s %s", one.name, about)
	return heal
}

func (n *nemesis) end(one fault, heal func() error) {
	if heal == nil {
		return
	}
	if err := heal(); err != nil {
		n.logf("end of %s: %v", one.name, err)
	}
}

// recover lets everything run that should.
func (n *nemesis) recover() {
	if err := n.network.heal(); err != nil {
		n.logf("network: %v", err)
	}
	if err := n.servers.heal(); err != nil {
		n.logf("servers: %v", err)
	}
	if err := n.finishReplacements(); err != nil {
		n.logf("replacement: %v", err)
	}
}

func (n *nemesis) kill() (func() error, string, error) {
	hit := n.minority()
	for _, number := range hit {
		n.servers.kill(number)
	}
	return n.startAgain(hit), fmt.Sprint(hit), nil
}

func (n *nemesis) startAgain(hit []int) func() error {
	return func() error {
		for _, number := range hit {
			if err := n.servers.start(number); err != nil {
				return err
			}
		}
		return nil
	}
}

func (n *nemesis) killAll() (func() error, string, error) {
	var all []int
	for _, number := range n.random.Perm(len(n.servers.all)) {
		n.servers.kill(number + 1)
		all = append(all, number+1)
	}
	return n.startAgain(all), fmt.Sprint(all), nil
}

func (n *nemesis) pause() (func() error, string, error) {
	hit := n.minority()
	for _, number := range hit {
		n.servers.pause(number, true)
	}
	return func() error {
		for _, number := range hit {
			n.servers.pause(number, false)
		}
		return nil
	}, fmt.Sprint(hit), nil
}

// cuts puts a set of cuts into force: pairs of who does not hear, and whom.
func (n *nemesis) cuts(pairs [][2]int) (func() error, error) {
	set := func(is bool) error {
		return n.network.change(func() {
			for _, pair := range pairs {
				n.network.cut[pair[0]][pair[1]] = is
			}
		})
	}
	return func() error { return set(false) }, set(true)
}

func (n *nemesis) cutOneWay() (func() error, string, error) {
	to := n.server()
	from := 1 + (to+n.random.IntN(len(n.servers.all)-1))%len(n.servers.all)
	heal, err := n.cuts([][2]int{{to, from}})
	return heal, fmt.Sprintf("%d does not hear %d", to, from), err
}

func (n *nemesis) cutBothWays() (func() error, string, error) {
	a := n.server()
	b := 1 + (a+n.random.IntN(len(n.servers.all)-1))%len(n.servers.all)
	heal, err := n.cuts([][2]int{{a, b}, {b, a}})
	return heal, fmt.Sprintf("%d and %d", a, b), err
}

// isolate cuts one server off from all others, in one direction or both; clients still reach it.
func (n *nemesis) isolate() (func() error, string, error) {
	hit, way := n.server(), n.random.IntN(3)
	var pairs [][2]int
	for other := 1; other <= len(n.servers.all); other++ {
		if other != hit && way != 0 {
			pairs = append(pairs, [2]int{other, hit})
		}
		if other != hit && way != 1 {
			pairs = append(pairs, [2]int{hit, other})
		}
	}
	heal, err := n.cuts(pairs)
	return heal, fmt.Sprintf("%d %s", hit, []string{"hears nobody", "is heard by nobody", "both ways"}[way]), err
}

// ring lets each server hear its neighbours in a ring alone; with three, each hears only the next.
func (n *nemesis) ring() (func() error, string, error) {
	order, size := n.random.Perm(len(n.servers.all)), len(n.servers.all)
	var pairs [][2]int
	for i, to := range order {
		for j, from := range order {
			next := (i+1)%size == j
			previous := (j+1)%size == i && size > 3
			if i != j && !next && !previous {
				pairs = append(pairs, [2]int{to + 1, from + 1})
			}
		}
	}
	heal, err := n.cuts(pairs)
	return heal, fmt.Sprint(order), err
}

// halves splits the servers in two.
func (n *nemesis) halves() (func() error, string, error) {
	few := n.minority()
	var pairs [][2]int
	for a := 1; a <= len(n.servers.all); a++ {
		for b := 1; b <= len(n.servers.all); b++ {
			if slices.Contains(few, a) != slices.Contains(few, b) {
				pairs = append(pairs, [2]int{a, b})
			}
		}
	}
	heal, err := n.cuts(pairs)
	return heal, fmt.Sprintf("%v and the rest", few), err
}

// cutClients hides some servers from the clients, or only what clients say.
func (n *nemesis) cutClients() (func() error, string, error) {
	var pairs [][2]int
	hit := n.minority()
	for _, number := range hit {
		pairs = append(pairs, [2]int{number, 0})
	}
	heal, err := n.cuts(pairs)
	return heal, fmt.Sprintf("unheard by %v", hit), err
}

func (n *nemesis) lose() (func() error, string, error) {
	hit, percent := n.random.Perm(len(n.servers.all))[:1+n.random.IntN(len(n.servers.all))], 2+n.random.IntN(30)
	set := func(percent int) error {
		return n.network.change(func() {
			for _, number := range hit {
				n.network.loss[number+1] = percent
			}
		})
	}
	return func() error { return set(0) }, fmt.Sprintf("%d %% at %d servers", percent, len(hit)), set(percent)
}

func (n *nemesis) slow() (func() error, string, error) {
	hit, rate := n.server(), 100+n.random.IntN(400)
	err := n.network.slow(hit, rate)
	if err != nil {
		return nil, "", err
	}
	return func() error { return n.network.slow(hit, 0) }, fmt.Sprintf("%d sends %d kbit/s", hit, rate), nil
}

func (n *nemesis) fullDisk() (func() error, string, error) {
	hit := n.minority()
	left := int64(n.random.IntN(3)) * int64(n.random.IntN(200_000))
	for _, number := range hit {
		if err := n.servers.fill(number, true, left); err != nil {
			return nil, "", err
		}
	}
	return func() error {
		for _, number := range hit {
			if err := n.servers.fill(number, false, 0); err != nil {
				return err
			}
		}
		return n.startAgain(hit)()
	}, fmt.Sprintf("%v, %d bytes left", hit, left), nil
}

func (n *nemesis) limitFiles() (func() error, string, error) {
	hit, bytes := n.server(), uint64(1+n.random.IntN(1<<20))
	err := n.servers.fileLimit(hit, bytes)
	return func() error {
		if err := n.servers.fileLimit(hit, 0); err != nil {
			n.logf("file-limit: %v", err)
		}
		return n.servers.start(hit)
	}, fmt.Sprintf("%d, %d bytes", hit, bytes), err
}

// clock starts a server again whose clock has jumped, as that of a virtual machine that was moved.
func (n *nemesis) clock() (func() error, string, error) {
	hit := n.server()
	n.servers.kill(hit)
	one := n.servers.all[hit-1]
	switch n.random.IntN(3) {
	case 0:
		one.ahead = 0
	case 1:
		one.ahead = n.random.Int64N(10_000_000)
	default:
		// Not before the machine was started.
		one.ahead = -n.random.Int64N(300)
	}
	return nil, fmt.Sprintf("%d, %d s ahead", hit, one.ahead), n.servers.start(hit)
}

// sorted gives the keys of a map in order.
func sorted[V any](all map[uint64]V) []uint64 {
	var keys []uint64
	for key := range all {
		keys = append(keys, key)
	}
	sort.Slice(keys, func(a, b int) bool { return keys[a] < keys[b] })
	return keys
}
