package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Modules of the data; each is to become a shard of its own.
const modules = 6

// Entries of a generation, and how long it lasts: few, so that clients meet; short, so that judges have an easy life.
const (
	entriesAtOnce  = 12
	generationTime = 15 * time.Second
)

func entryPath(entry int) string {
	return fmt.Sprintf("/m%d:hot/entry=%d", entry%modules, entry)
}
func leafPath(entry int, leaf string) string { return entryPath(entry) + "/" + leaf }

// leafOf is the other way round.
func leafOf(path string) (entry int, leaf string, ok bool) {
	var module int
	if n, err := fmt.Sscanf(path, "/m%d:hot/entry=%d/%s", &module, &entry, &leaf); err != nil || n != 3 {
		return 0, "", false
	}
	return entry, leaf, leafPath(entry, leaf) == path
}

// load is all clients together.
type load struct {
	clock      clock
	connector  *connector
	history    *history
	nextValue  atomic.Uint64
	generation atomic.Int64
	answered   atomic.Int64
	unknown    atomic.Int64
	refused    atomic.Int64
	// When the last answer came, and the longest time between two.
	lastAnswer, longestGap atomic.Int64
	// Generations that clients are in.
	mutex   sync.Mutex
	active  map[int]int
	strange []string
	// Writes that were answered, by leaf and tag, for the watchers.
	written  map[delivery]int64
	repeated map[string]int
	// The pause between two requests of a client.
	pause time.Duration
	ended chan struct{}
}

// delivery is a value that a watcher has to deliver.
type delivery struct {
	entry int
	leaf  string
	tag   uint64
}

func newLoad(clock clock, connector *connector, pause time.Duration) *load {
	return &load{clock: clock, connector: connector, history: newHistory(), active: map[int]int{}, written: map[delivery]int64{},
		repeated: map[string]int{}, pause: pause, ended: make(chan struct{})}
}

// enter puts a client into the present generation.
func (l *load) enter() int {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	generation := int(l.generation.Load())
	l.active[generation]++
	return generation
}

func (l *load) exit(generation int) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.active[generation]--
	if l.active[generation] == 0 {
		delete(l.active, generation)
	}
}

// isOver says whether no client is in a generation before the present one.
func (l *load) isOver(generation int) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return generation < int(l.generation.Load()) && l.active[generation] == 0
}

func (l *load) found(text string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if len(l.strange) < 100 {
		l.strange = append(l.strange, text)
	}
}

// run is one client, until the load ends.
func (l *load) run(number int, random *rand.Rand) {
	client := newClient(l.connector, random)
	// What it read or wrote last, for conditions: the tag of each leaf.
	known := map[string]uint64{}
	for {
		select {
		case <-l.ended:
			l.mutex.Lock()
			for why, count := range client.repeated {
				l.repeated[why] += count
			}
			l.mutex.Unlock()
			return
		case <-time.After(time.Duration(float64(l.pause) * (0.5 + random.Float64()))):
		}
		generation := l.enter()
		one := l.choose(random, generation, known)
		one.Client = number
		l.carryOut(client, &one)
		l.history.add(generation, one)
		l.note(one, known)
		l.exit(generation)
	}
}

func (l *load) note(one operation, known map[string]uint64) {
	if one.Return == nil {
		return
	}
	for leaf, got := range one.Seen {
		known[leafPath(one.Entry, leaf)] = got.Tag
	}
	if one.Outcome != "written" {
		return
	}
	leaves := []string{one.Leaf}
	if one.Do == "put-both" {
		leaves = []string{"a", "b"}
	}
	if one.Do == "delete" || one.Do == "remove" {
		return
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for _, leaf := range leaves {
		known[leafPath(one.Entry, leaf)] = one.Revision
		l.written[delivery{one.Entry, leaf, one.Revision}] = *one.Return
	}
}

// choose draws the next operation.
func (l *load) choose(random *rand.Rand, generation int, known map[string]uint64) operation {
	// Half of the requests go to a sixth of the entries.
	place := random.IntN(entriesAtOnce)
	if random.IntN(2) == 0 {
		place = random.IntN(max(entriesAtOnce/6, 1))
	}
	one := operation{Entry: generation*entriesAtOnce + place, Leaf: []string{"a", "b"}[random.IntN(2)]}
	kinds := []string{"get", "get", "get", "list", "list", "put", "put", "put", "create", "create", "replace", "put-both", "delete", "remove"}
	one.Do = kinds[random.IntN(len(kinds))]
	switch one.Do {
	case "create", "put", "replace":
		one.Value = l.nextValue.Add(1)
	case "put-both":
		one.Leaf, one.Value, one.Other = "", l.nextValue.Add(1), l.nextValue.Add(1)
	case "list", "delete", "remove":
		one.Leaf = ""
	}
	if one.isWrite() && random.IntN(3) == 0 {
		one.If = l.condition(random, one.Entry, known)
	}
	return one
}

func (l *load) condition(random *rand.Rand, entry int, known map[string]uint64) *condition {
	leaf := []string{"a", "b"}[random.IntN(2)]
	tag, is := known[leafPath(entry, leaf)]
	switch {
	case is && random.IntN(4) != 0:
		return &condition{Leaf: leaf, Expect: "tag", Number: tag}
	case random.IntN(2) == 0:
		return &condition{Leaf: leaf, Expect: "present"}
	default:
		return &condition{Leaf: leaf, Expect: "absent"}
	}
}

// carryOut asks the cluster, and writes down what came of it.
func (l *load) carryOut(client *client, one *operation) {
	one.Call = l.clock.now()
	got, err := client.ask(func(w *writer) { fill(w, *one) })
	at := l.clock.now()
	if err != nil {
		l.unknown.Add(1)
		return
	}
	if got.failure != nil && got.failure.kind == errorRefused && got.failure.refusal == refusalForgotten {
		l.unknown.Add(1)
		return
	}
	if got.failure != nil && got.failure.kind == errorInvalid {
		// Newer servers say so to a client of version 1 for what it has no word for, as for a quota.
		l.unknown.Add(1)
		client.repeated["given up: "+strings.Join(strings.Fields(got.failure.text), " ")]++
		return
	}
	if err := outcome(one, got); err != nil {
		l.unknown.Add(1)
		l.found(fmt.Sprintf("client %d: %s: %v", one.Client, describe(*one), err))
		return
	}
	one.Return = &at
	l.answered.Add(1)
	if one.Outcome == "refused" {
		l.refused.Add(1)
	}
	if last := l.lastAnswer.Swap(at); at-last > l.longestGap.Load() {
		l.longestGap.Store(at - last)
	}
}

// fill writes the request's body.
func fill(w *writer, one operation) {
	leaf := leafPath(one.Entry, one.Leaf)
	switch one.Do {
	case "get":
		w.number(bodyGet)
		w.location(leaf)
		w.number(0)
		return
	case "list":
		w.number(bodyList)
		w.location(entryPath(one.Entry))
		w.numbers(0, 100, 0)
		return
	}
	w.number(bodyWrite)
	if one.If == nil {
		w.number(0)
	} else {
		w.number(1)
		w.location(leafPath(one.Entry, one.If.Leaf))
		switch one.If.Expect {
		case "absent":
			w.number(0)
		case "present":
			w.number(1)
		case "tag":
			w.numbers(2, one.If.Number)
		}
	}
	value := func(kind uint64, leaf string, value uint64) {
		w.number(kind)
		w.location(leafPath(one.Entry, leaf))
		w.text(strconv.FormatUint(value, 10))
	}
	switch one.Do {
	case "create":
		w.number(1)
		value(changeCreate, one.Leaf, one.Value)
	case "put":
		w.number(1)
		value(changePut, one.Leaf, one.Value)
	case "replace":
		w.number(1)
		value(changeReplace, one.Leaf, one.Value)
	case "put-both":
		w.number(2)
		value(changePut, "a", one.Value)
		value(changePut, "b", one.Other)
	case "delete":
		w.numbers(1, changeDelete)
		w.location(entryPath(one.Entry))
	case "remove":
		w.numbers(1, changeRemove)
		w.location(entryPath(one.Entry))
	}
}

// outcome takes over what the answer says; an error for one that does not belong to the request.
func outcome(one *operation, got *answer) error {
	if got.failure != nil {
		if got.failure.kind != errorRefused || !one.isWrite() {
			return fmt.Errorf("error %d: %s", got.failure.kind, got.failure.text)
		}
		one.Outcome = "refused"
		return nil
	}
	if one.isWrite() {
		if got.kind != answerWritten {
			return fmt.Errorf("answer %d to a write", got.kind)
		}
		one.Outcome, one.Revision = "written", got.revision
		return nil
	}
	one.Outcome, one.Seen = "seen", map[string]seen{}
	for _, value := range got.values {
		leaf := one.Leaf
		if one.Do == "list" {
			entry, name, ok := leafOf(value.path)
			if !ok || entry != one.Entry {
				return fmt.Errorf("the list has %q", value.path)
			}
			leaf = name
		}
		number, err := strconv.ParseUint(value.value, 10, 64)
		if err != nil {
			return fmt.Errorf("the value %q was never written", value.value)
		}
		one.Seen[leaf] = seen{number, value.tag}
	}
	return nil
}
