package main

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"
)

// watcher follows one module through all faults. It must deliver every write that was answered, in order, unless it was notified
// that something was left out.
type watcher struct {
	number    int
	module    int
	connector *connector
	random    *rand.Rand

	mutex sync.Mutex
	// Up to which revision each shard has been delivered.
	from map[uint64]uint64
	// What was delivered, and up to which revision something may be missing: everywhere, and below a path.
	delivered    map[delivery]bool
	excused      uint64
	excusedBelow map[string]uint64
	watching     bool
	refusals     string
	events       int
	skips        int
	found        []string
}

func newWatcher(number int, connector *connector, random *rand.Rand) *watcher {
	return &watcher{number: number, module: number % modules, connector: connector, random: random, from: map[uint64]uint64{},
		delivered: map[delivery]bool{}, excusedBelow: map[string]uint64{}}
}

func (w *watcher) path() string { return fmt.Sprintf("/m%d:hot", w.module) }

// run watches until it is ended.
func (w *watcher) run(ended <-chan struct{}) {
	for sequence := uint64(1); ; sequence++ {
		err := w.session(sequence, ended)
		w.mutex.Lock()
		w.watching = false
		if err != nil {
			w.refusals = err.Error()
		}
		w.mutex.Unlock()
		select {
		case <-ended:
			return
		case <-time.After(time.Duration(50+w.random.IntN(200)) * time.Millisecond):
		}
	}
}

// session is one connection.
func (w *watcher) session(sequence uint64, ended <-chan struct{}) error {
	session := w.random.Uint64()
	conn, err := w.connector.dial(w.connector.addresses[w.random.IntN(len(w.connector.addresses))], session)
	if err != nil {
		return err
	}
	defer conn.Close()
	w.mutex.Lock()
	body := request(session, sequence, sequence, uint32(attemptTime.Milliseconds()), func(b *writer) {
		b.number(bodyWatch)
		b.location(w.path())
		b.number(uint64(len(w.from)))
		for _, shard := range sorted(w.from) {
			b.numbers(shard, w.from[shard])
		}
	})
	w.mutex.Unlock()
	if err := writeFrame(conn, body); err != nil {
		return err
	}
	// A server that is cut off says nothing; sooner or later the watcher asks another.
	patience := 3*time.Second + time.Duration(w.random.IntN(12_000))*time.Millisecond
	return w.listen(conn, sequence, patience, ended)
}

func (w *watcher) listen(conn net.Conn, sequence uint64, patience time.Duration, ended <-chan struct{}) error {
	for end := time.Now().Add(patience); time.Now().Before(end); {
		select {
		case <-ended:
			return nil
		default:
		}
		_ = conn.SetReadDeadline(end)
		body, err := readFrame(conn)
		if err != nil {
			return err
		}
		got, all, err := serverMessage(body)
		if err != nil {
			return err
		}
		switch {
		case got != nil && got.sequence == sequence && got.failure != nil:
			return fmt.Errorf("error %d: %s", got.failure.kind, got.failure.text)
		case got != nil && got.sequence == sequence:
			w.begins(got.from)
		case all != nil && all.watch == sequence:
			w.deliver(all)
		}
	}
	return nil
}

func (w *watcher) begins(from map[uint64]uint64) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.watching = true
	for shard, revision := range from {
		if _, is := w.from[shard]; !is {
			w.from[shard] = revision
			w.excused = max(w.excused, revision)
		}
	}
}

func (w *watcher) deliver(batch *events) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	from, newest := w.from[batch.shard], uint64(0)
	if batch.skipped {
		w.skips++
		w.excused = max(w.excused, batch.revision)
	}
	for _, one := range batch.all {
		w.events++
		if one.kind == eventReset {
			w.excusedBelow[one.path] = max(w.excusedBelow[one.path], one.revision)
			continue
		}
		if one.revision <= from || one.revision < newest || one.revision > batch.revision {
			w.find(fmt.Sprintf("delivered revision %d of shard %d (%s) after %d and %d, in a batch up to %d", one.revision, batch.shard,
				one.path, from, newest, batch.revision))
		}
		newest = max(newest, one.revision)
		if entry, leaf, ok := leafOf(one.path); ok && one.kind == eventPut {
			w.delivered[delivery{entry, leaf, one.tag}] = true
		}
	}
	if batch.revision < from {
		w.find(fmt.Sprintf("shard %d went back from revision %d to %d", batch.shard, from, batch.revision))
	}
	w.from[batch.shard] = batch.revision
}

func (w *watcher) find(text string) {
	if len(w.found) < 20 {
		w.found = append(w.found, fmt.Sprintf("watcher %d of %s %s", w.number, w.path(), text))
	}
}

// missing are answered writes that it did not deliver, without an excuse.
func (w *watcher) missing(written map[delivery]int64) []delivery {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	var all []delivery
	for one := range written {
		if one.entry%modules != w.module || w.delivered[one] || one.tag <= w.excused {
			continue
		}
		path, isExcused := leafPath(one.entry, one.leaf), false
		for prefix, revision := range w.excusedBelow {
			isExcused = isExcused || one.tag <= revision && (isBelow(path, prefix) || isBelow(prefix, path))
		}
		if !isExcused {
			all = append(all, one)
		}
	}
	return all
}

func isBelow(path, prefix string) bool {
	return prefix == "/" || path == prefix || strings.HasPrefix(path, strings.TrimSuffix(prefix, "/")+"/") || prefix == ""
}
