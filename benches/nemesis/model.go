package main

import (
	"fmt"
	"math"
	"time"

	"github.com/anishathalye/porcupine"
)

// leaf is what the model knows of one of an entry's two leaves. A tag of 0 is one that nobody ever saw.
type leaf struct {
	present bool
	value   uint64
	tag     uint64
}

// entryState is the whole state of an entry. Revisions of one entry grow, also while it is absent.
type entryState struct {
	leaves   [2]leaf
	revision uint64
}

// step is an operation with what the whole history says of it.
type step struct {
	operation
	// The tag of what it writes, if anybody saw it.
	tag uint64
}

func index(name string) int {
	if name == "b" {
		return 1
	}
	return 0
}

func (s entryState) holds(c *condition) bool {
	if c == nil {
		return true
	}
	leaf := s.leaves[index(c.Leaf)]
	switch c.Expect {
	case "absent":
		return !leaf.present
	case "present":
		return leaf.present
	case "tag":
		return leaf.present && leaf.tag == c.Number
	default:
		return leaf.present && leaf.value == c.Number
	}
}

func (s entryState) admits(o step) bool {
	switch o.Do {
	case "create":
		return !s.leaves[index(o.Leaf)].present
	case "replace":
		return s.leaves[index(o.Leaf)].present
	case "delete":
		return s.leaves[0].present || s.leaves[1].present
	}
	return true
}

// changed is the state after a write that was done; false if its revision does not come after all before.
func (s entryState) changed(o step) (entryState, bool) {
	isEmpty := !s.leaves[0].present && !s.leaves[1].present
	if o.Do == "remove" && isEmpty {
		return s, true
	}
	if o.tag != 0 {
		if o.tag <= s.revision {
			return s, false
		}
		s.revision = o.tag
	}
	switch o.Do {
	case "delete", "remove":
		s.leaves = [2]leaf{}
	case "put-both":
		s.leaves = [2]leaf{{true, o.Value, o.tag}, {true, o.Other, o.tag}}
	default:
		s.leaves[index(o.Leaf)] = leaf{true, o.Value, o.tag}
	}
	return s, true
}

func (s entryState) shows(o step) bool {
	for i, name := range []string{"a", "b"} {
		if o.Do == "get" && o.Leaf != name {
			continue
		}
		got, found := o.Seen[name]
		if leaf := s.leaves[i]; found != leaf.present || found && (leaf.value != got.Value || leaf.tag != got.Tag) {
			return false
		}
	}
	return true
}

// next is porcupine's step: whether the operation may have had its outcome in this state, and the state after it.
func (s entryState) next(o step) (bool, entryState) {
	if !o.isWrite() {
		return s.shows(o), s
	}
	done := s.holds(o.If) && s.admits(o)
	switch o.Outcome {
	case "refused":
		return !done, s
	case "written":
		if !done {
			return false, s
		}
	default:
		// Unknown: it does what it would do. If it never came to be, its place is behind all others.
		if !done {
			return true, s
		}
	}
	after, fits := s.changed(o)
	return fits, after
}

// model is one entry for porcupine.
var model = porcupine.Model{
	Init: func() any { return entryState{} },
	Step: func(state, input, _ any) (bool, any) {
		fits, after := state.(entryState).next(input.(step))
		return fits, after
	},
	Equal: func(a, b any) bool { return a == b },
	Hash: func(state any) uint64 {
		s := state.(entryState)
		hash := s.revision
		for _, leaf := range s.leaves {
			hash = hash*0x9E3779B97F4A7C15 + leaf.value ^ leaf.tag<<17
		}
		return hash
	},
	DescribeOperation: func(input, _ any) string { return describe(input.(step).operation) },
}

func describe(o operation) string {
	text := fmt.Sprintf("%s %s=%d", o.Do, o.Leaf, o.Value)
	if o.If != nil {
		text += fmt.Sprintf(" if %s %s %d", o.If.Leaf, o.If.Expect, o.If.Number)
	}
	return fmt.Sprintf("%s -> %s %v %d", text, o.Outcome, o.Seen, o.Revision)
}

// written are the values that a write leaves behind.
func (o operation) written() []uint64 {
	switch o.Do {
	case "create", "put", "replace":
		return []uint64{o.Value}
	case "put-both":
		return []uint64{o.Value, o.Other}
	}
	return nil
}

// evidence is what a history says of each value: its tag, and when somebody first saw it.
type evidence struct {
	tags  map[uint64]uint64
	first map[uint64]int64
}

// gather finds a contradiction at once when one value has two tags.
func gather(history []operation) (evidence, error) {
	found := evidence{tags: map[uint64]uint64{}, first: map[uint64]int64{}}
	note := func(value, tag uint64, at int64) error {
		if old := found.tags[value]; old != 0 && old != tag {
			return fmt.Errorf("value %d has the entity tags %d and %d", value, old, tag)
		}
		found.tags[value] = tag
		if old, is := found.first[value]; !is || at < old {
			found.first[value] = at
		}
		return nil
	}
	for _, o := range history {
		if o.Return == nil {
			continue
		}
		for _, got := range o.Seen {
			if err := note(got.Value, got.Tag, *o.Return); err != nil {
				return found, err
			}
		}
		if o.Outcome == "written" {
			for _, value := range o.written() {
				if err := note(value, o.Revision, *o.Return); err != nil {
					return found, err
				}
			}
		}
	}
	return found, nil
}

// steps turns operations of one entry into porcupine's. A write of unknown outcome that somebody saw has happened, and before
// whoever saw it first was answered; without such evidence it stays open for ever.
func (e evidence) steps(history []operation) ([]porcupine.Operation, error) {
	var all []porcupine.Operation
	for _, o := range history {
		if o.Return == nil && !o.isWrite() {
			continue
		}
		one := step{operation: o, tag: o.Revision}
		end := int64(math.MaxInt64)
		if o.Return != nil {
			end = *o.Return
		}
		for _, value := range o.written() {
			if at, is := e.first[value]; is && o.Return == nil {
				if at < o.Call {
					return nil, fmt.Errorf("value %d was read before it was written", value)
				}
				one.Outcome, one.tag, end = "written", e.tags[value], min(end, at)
			}
		}
		all = append(all, porcupine.Operation{ClientId: o.Client, Input: one, Call: o.Call, Return: end})
	}
	return all, nil
}

// Verdicts of both judges.
const (
	fine      = "linearizable"
	wrong     = "NOT linearizable"
	undecided = "undecided"
)

// verdict of a history, with the entry that is wrong and why.
type verdict struct {
	result string
	why    string
}

// byEntry cuts a history: linearizability is local.
func byEntry(history []operation) map[int][]operation {
	parts := map[int][]operation{}
	for _, o := range history {
		parts[o.Entry] = append(parts[o.Entry], o)
	}
	return parts
}

// judgeByPorcupine gives each entry so long.
func judgeByPorcupine(history []operation, patience time.Duration) verdict {
	result := verdict{result: fine}
	for entry, part := range byEntry(history) {
		found, err := gather(part)
		var all []porcupine.Operation
		if err == nil {
			all, err = found.steps(part)
		}
		if err != nil {
			return verdict{wrong, fmt.Sprintf("entry %d: %v", entry, err)}
		}
		switch porcupine.CheckOperationsTimeout(model, all, patience) {
		case porcupine.Illegal:
			return verdict{wrong, fmt.Sprintf("entry %d", entry)}
		case porcupine.Unknown:
			result = verdict{undecided, fmt.Sprintf("entry %d: no answer within %v", entry, patience)}
		}
	}
	return result
}
