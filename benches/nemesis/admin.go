package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// How long an administrator waits for one command.
const adminTime = 4 * time.Second

// status is what `heddle cluster status -o json` says, as far as it matters here.
type status struct {
	Servers []struct {
		Name   string `json:"name"`
		Server uint64 `json:"id"`
	} `json:"servers"`
	Shards []struct {
		Name     string `json:"name"`
		Voters   string `json:"voters"`
		Leader   string `json:"leader"`
		Prefixes string `json:"prefixes"`
	} `json:"shards"`
}

func (n *nemesis) status() (status, error) {
	var got status
	said, err := n.servers.cluster(adminTime, "status", "-o", "json")
	if err != nil {
		return got, fmt.Errorf("%w: %s", err, said)
	}
	return got, json.Unmarshal([]byte(said), &got)
}

func (s status) number(name string) (uint64, bool) {
	for _, one := range s.Servers {
		if one.Name == name {
			return one.Server, true
		}
	}
	return 0, false
}

// command is one of `heddle cluster`.
func (n *nemesis) command(arguments ...string) error {
	said, err := n.servers.cluster(adminTime, arguments...)
	if err != nil {
		return fmt.Errorf("%w: %.300s", err, said)
	}
	return nil
}

// untilDone repeats a command while faults are away.
func (n *nemesis) untilDone(patience time.Duration, arguments ...string) error {
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(300 * time.Millisecond) {
		if err = n.command(arguments...); err == nil {
			return nil
		}
	}
	return err
}

// found waits until all servers vote everywhere, and makes the shards.
func (n *nemesis) foundCluster() error {
	size := len(n.servers.all)
	if err := n.servers.start(1); err != nil {
		return err
	}
	if err := n.await(30*time.Second, func(s status) bool { return len(s.Servers) == 1 }); err != nil {
		return err
	}
	for number := 2; number <= size; number++ {
		if err := n.servers.start(number); err != nil {
			return err
		}
		if err := n.await(60*time.Second, func(s status) bool { return len(s.Servers) == number }); err != nil {
			return err
		}
	}
	// A module keeps to `default`; the others get shards of their own.
	for module := 1; module < modules; module++ {
		name := fmt.Sprintf("shard%d", module)
		if err := n.untilDone(30*time.Second, "shards", "create", name, "--module", fmt.Sprintf("m%d", module)); err != nil {
			return err
		}
	}
	return n.await(60*time.Second, func(s status) bool {
		for _, shard := range s.Shards {
			if len(strings.Split(shard.Voters, ", ")) < min(size, 3) {
				return false
			}
		}
		return len(s.Shards) >= modules
	})
}

func (n *nemesis) await(patience time.Duration, wanted func(status) bool) error {
	var got status
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if got, err = n.status(); err == nil && wanted(got) {
			return nil
		}
	}
	return fmt.Errorf("the cluster is not ready after %v: %+v, %w", patience, got, err)
}

// replace kills a server, takes it out of the cluster, and lets one with an empty folder join in its place.
func (n *nemesis) replace() (func() error, string, error) {
	n.recover()
	if len(n.servers.leaving()) > 0 || !n.isWhole() {
		return nil, "nobody", fmt.Errorf("the cluster is not whole, and its administrator waits")
	}
	hit := n.server()
	n.servers.kill(hit)
	n.servers.leave(hit, true)
	err := n.finishReplacements()
	return nil, fmt.Sprintf("%d, now %s", hit, n.servers.name(hit)), err
}

// finishReplacements finishes what replacements have begun: the folder of a server is emptied when the cluster has forgotten it, and not before. One
// that the cluster does not let go runs again, as it would by an administrator's hand: otherwise the nemesis itself took the majority away.
func (n *nemesis) finishReplacements() error {
	var refused error
	for _, hit := range n.servers.leaving() {
		name := n.servers.name(hit)
		removal := n.untilDone(10*time.Second, "remove", name)
		got, err := n.status()
		if err != nil {
			return fmt.Errorf("remove %s: %w; status: %w", name, removal, err)
		}
		if _, is := got.number(name); is {
			refused = fmt.Errorf("remove %s: %w", name, removal)
		} else if err := n.servers.wipe(hit); err != nil {
			return err
		}
		n.servers.leave(hit, false)
		if err := n.servers.start(hit); err != nil {
			return err
		}
	}
	return refused
}

// lookForRemoved finds servers that were members and are none any more: a removal of unknown outcome was carried out after all.
func (n *nemesis) lookForRemoved() error {
	got, err := n.status()
	if err != nil {
		return err
	}
	for number := 1; number <= len(n.servers.all); number++ {
		_, is := got.number(n.servers.name(number))
		if n.servers.sawMember(number, is) && !is {
			// It goes on until nobody needs it, and then ends: before that its folder may hold what nobody else has.
			n.servers.leave(number, true)
			if !n.servers.ends(number, time.Minute) {
				n.logf("server %d was removed a minute ago and still runs", number)
			}
			n.servers.kill(number)
		}
	}
	return n.finishReplacements()
}

// moveShard moves an entry, or a whole module, to another shard, or back.
func (n *nemesis) moveShard() (func() error, string, error) {
	generation := int(n.load.generation.Load())
	entry := generation*entriesAtOnce + n.random.IntN(entriesAtOnce)
	shard := "default"
	if to := n.random.IntN(modules); to > 0 {
		shard = fmt.Sprintf("shard%d", to)
	}
	arguments := []string{"shards", "move", shard}
	if n.random.IntN(2) == 0 {
		arguments = append(arguments, "--prefix", entryPath(entry))
	} else {
		arguments = append(arguments, "--module", fmt.Sprintf("m%d", n.random.IntN(modules)))
	}
	return nil, strings.Join(arguments[2:], " "), n.command(arguments...)
}

// replicas gives a shard other holders: three or all, chosen by us or by the cluster.
func (n *nemesis) replicas() (func() error, string, error) {
	shard := fmt.Sprintf("shard%d", 1+n.random.IntN(modules-1))
	wanted := "all"
	switch n.random.IntN(3) {
	case 0:
		wanted = "3"
	case 1:
		var names []string
		for _, number := range n.random.Perm(len(n.servers.all))[:min(3, len(n.servers.all))] {
			names = append(names, n.servers.name(number+1))
		}
		wanted = strings.Join(names, ",")
	}
	return nil, shard + " " + wanted, n.command("shards", "replicas", shard, wanted)
}

func (n *nemesis) moveLeader() (func() error, string, error) {
	shard, to := "default", n.servers.name(n.server())
	switch which := n.random.IntN(modules + 1); which {
	case 0:
	case modules:
		shard = "meta"
	default:
		shard = fmt.Sprintf("shard%d", which)
	}
	return nil, shard + " " + to, n.command("move-leader", shard, to)
}

// isWhole says whether all servers are there, and every shard has a leader.
func (n *nemesis) isWhole() bool {
	got, err := n.status()
	if err != nil || len(got.Servers) != len(n.servers.all) {
		return false
	}
	for _, shard := range got.Shards {
		if shard.Leader == "" {
			return false
		}
	}
	return true
}
