package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// The data: entries with two leaves, `a` and `b`, as in the simulated clusters. Values are numbers that are never written twice.

// operation is one request of a client, from before it was sent to after it was answered. One line of a history, which
// `cargo run -p heddle-sim --example judge FILE` reads, too.
type operation struct {
	Client int `json:"client"`
	Entry  int `json:"entry"`
	// Nanoseconds of one monotonic clock. No return: the outcome is unknown.
	Call   int64  `json:"call"`
	Return *int64 `json:"return"`
	// get, list, create, put, replace, put-both, delete, remove
	Do string `json:"do"`
	// a or b, where the operation is about one of them
	Leaf string `json:"leaf,omitempty"`
	// The value of that leaf; for put-both of `a`
	Value uint64 `json:"value,omitempty"`
	// For put-both, the value of `b`
	Other uint64     `json:"other,omitempty"`
	If    *condition `json:"if,omitempty"`
	// seen, written or refused
	Outcome string `json:"outcome,omitempty"`
	// Of a read: what was there, by leaf
	Seen map[string]seen `json:"seen,omitempty"`
	// Of a write
	Revision uint64 `json:"revision,omitempty"`
}

// condition of a write on one leaf: absent, present, tag or value.
type condition struct {
	Leaf   string `json:"leaf"`
	Expect string `json:"expect"`
	Number uint64 `json:"number,omitempty"`
}

// seen is a value and its entity tag.
type seen struct {
	Value uint64 `json:"value"`
	Tag   uint64 `json:"tag"`
}

func (o operation) isWrite() bool { return o.Do != "get" && o.Do != "list" }

// clock gives nanoseconds since the program began, of a clock that nobody sets.
type clock struct{ begun time.Time }

func (c clock) now() int64 { return int64(time.Since(c.begun)) }

// history collects the operations of all clients, in generations: entries of a generation are not used by later ones, so that each
// can be judged when its last operation has ended.
type history struct {
	mutex       sync.Mutex
	generations map[int][]operation
}

func newHistory() *history { return &history{generations: map[int][]operation{}} }

func (h *history) add(generation int, o operation) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.generations[generation] = append(h.generations[generation], o)
}

// take gives the operations of a generation, and forgets them.
func (h *history) take(generation int) []operation {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	all := h.generations[generation]
	delete(h.generations, generation)
	return all
}

func writeHistory(path string, all []operation) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	encoder := json.NewEncoder(file)
	for _, one := range all {
		if err := encoder.Encode(one); err != nil {
			return err
		}
	}
	return file.Close()
}

func readHistory(path string) ([]operation, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	decoder := json.NewDecoder(file)
	decoder.DisallowUnknownFields()
	var all []operation
	for {
		var one operation
		if err := decoder.Decode(&one); err == io.EOF {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: operation %d: %w", path, len(all), err)
		}
		all = append(all, one)
	}
}
