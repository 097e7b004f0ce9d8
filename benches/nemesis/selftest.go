package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// The judges have to find what is planted, in every run before it starts, and nothing in a history that is right.

// planted is a history with its verdict.
type planted struct {
	name   string
	wanted string
	all    []operation
}

// op is an operation of client `client` between two moments.
func op(client int, call, end int64, do string, more func(*operation)) operation {
	one := operation{Client: client, Call: call, Do: do, Leaf: "a"}
	if end > 0 {
		one.Return = &end
	}
	if do == "list" || do == "delete" || do == "remove" || do == "put-both" {
		one.Leaf = ""
	}
	if more != nil {
		more(&one)
	}
	return one
}

func wrote(client int, call, end int64, do string, value, revision uint64) operation {
	return op(client, call, end, do, func(o *operation) { o.Value, o.Outcome, o.Revision = value, "written", revision })
}
func refused(client int, call, end int64, do string, value uint64) operation {
	return op(client, call, end, do, func(o *operation) { o.Value, o.Outcome = value, "refused" })
}
func lost(client int, call int64, do string, value uint64) operation {
	return op(client, call, 0, do, func(o *operation) { o.Value = value })
}
func reads(client int, call, end int64, value, tag uint64) operation {
	return op(client, call, end, "get", func(o *operation) {
		o.Outcome, o.Seen = "seen", map[string]seen{}
		if value != 0 {
			o.Seen["a"] = seen{value, tag}
		}
	})
}
func ifTag(one operation, tag uint64) operation {
	one.If = &condition{Leaf: "a", Expect: "tag", Number: tag}
	return one
}

func plantedHistories() []planted {
	both := op(1, 10, 20, "put-both", func(o *operation) { o.Value, o.Other, o.Outcome, o.Revision = 1, 2, "written", 5 })
	torn := op(2, 30, 40, "list", func(o *operation) { o.Outcome, o.Seen = "seen", map[string]seen{"a": {1, 5}} })
	return []planted{
		{"one after another", fine, []operation{
			reads(1, 1, 2, 0, 0), wrote(1, 3, 4, "create", 1, 5), reads(2, 5, 6, 1, 5), refused(2, 7, 8, "create", 2),
			ifTag(wrote(2, 9, 10, "put", 3, 6), 5), ifTag(refused(1, 11, 12, "put", 4), 5), wrote(1, 13, 14, "delete", 0, 7), reads(1, 15, 16, 0, 0)}},
		{"an unknown write that happened, and one that did not", fine, []operation{
			wrote(1, 1, 2, "put", 1, 5), lost(2, 3, "put", 2), lost(3, 3, "put", 3), reads(1, 5, 6, 1, 5), reads(1, 7, 8, 2, 6), reads(1, 9, 10, 2, 6)}},
		{"an unknown write that happened late", fine, []operation{
			wrote(1, 1, 2, "put", 1, 5), lost(2, 3, "delete", 0), reads(1, 5, 6, 1, 5), reads(1, 90, 91, 0, 0)}},
		{"a stale read", wrong, []operation{
			wrote(1, 1, 2, "put", 1, 5), wrote(1, 3, 4, "put", 2, 6), reads(2, 5, 6, 1, 5)}},
		{"a lost write", wrong, []operation{
			wrote(1, 1, 2, "create", 1, 5), reads(2, 3, 4, 0, 0)}},
		{"a write that happened twice", wrong, []operation{
			wrote(1, 1, 2, "put", 1, 5), wrote(1, 3, 4, "put", 2, 6), reads(2, 5, 6, 2, 6), reads(2, 7, 8, 1, 7)}},
		{"an unknown write that came and went", wrong, []operation{
			wrote(1, 1, 2, "put", 1, 5), lost(2, 3, "put", 2), reads(1, 5, 6, 2, 6), reads(1, 7, 8, 1, 5)}},
		{"two that both replaced one entity tag", wrong, []operation{
			wrote(1, 1, 2, "put", 1, 5), ifTag(wrote(1, 3, 6, "put", 2, 6), 5), ifTag(wrote(2, 3, 6, "put", 3, 7), 5)}},
		{"two that both created", wrong, []operation{
			wrote(1, 1, 4, "create", 1, 5), wrote(2, 1, 4, "create", 2, 6)}},
		{"a refusal without a reason", wrong, []operation{
			refused(1, 1, 2, "create", 1)}},
		{"half a transaction", wrong, []operation{both, torn}},
		{"a revision that goes back", wrong, []operation{
			wrote(1, 1, 2, "put", 1, 6), wrote(1, 3, 4, "put", 2, 5)}},
		{"a value that nobody wrote", wrong, []operation{
			wrote(1, 1, 2, "put", 1, 5), reads(1, 3, 4, 9, 7)}},
	}
}

// judges are Porcupine, and the project's own checker as a program.
type judges struct {
	own  string
	work string
}

// byOwn runs the project's checker over a file.
func (j judges) byOwn(file string) verdict {
	said, err := exec.Command(j.own, file).CombinedOutput()
	text := strings.TrimSpace(string(said))
	switch {
	case err == nil && strings.HasPrefix(text, fine):
		return verdict{fine, ""}
	case strings.HasPrefix(text, "not decided"):
		return verdict{undecided, text}
	case strings.HasPrefix(text, "not linearizable"):
		return verdict{wrong, text}
	}
	return verdict{"failed", fmt.Sprintf("%v: %s", err, text)}
}

// both gives Porcupine's verdict and that of the project's checker.
func (j judges) both(name string, all []operation, patience time.Duration) (verdict, verdict, error) {
	file := filepath.Join(j.work, name+".jsonl")
	if err := writeHistory(file, all); err != nil {
		return verdict{}, verdict{}, err
	}
	porcupine, own := judgeByPorcupine(all, patience), j.byOwn(file)
	if porcupine.result == fine && own.result == fine {
		return porcupine, own, os.Remove(file)
	}
	return porcupine, own, nil
}

func (j judges) selfTest() error {
	for i, one := range plantedHistories() {
		porcupine, own, err := j.both(fmt.Sprintf("planted-%d", i), one.all, 10*time.Second)
		if err != nil {
			return err
		}
		if porcupine.result != one.wanted || own.result != one.wanted {
			return fmt.Errorf("the judges are wrong about %q: expected %s, Porcupine says %v, our checker says %v", one.name, one.wanted,
				porcupine, own)
		}
		if err := os.RemoveAll(filepath.Join(j.work, fmt.Sprintf("planted-%d.jsonl", i))); err != nil {
			return err
		}
	}
	return nil
}
