package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The controllers' protocol, from docs/protocol.md alone: frames, and messages in postcard's format.
const (
	magic           = 0x4845444c
	protocolVersion = 1
	frameMax        = 16 << 20
)

// Numbers of requests, changes, expectations, answers and errors, in the order of docs/protocol.md.
const (
	bodyGet, bodyList, bodyWrite, bodyWatch         = 0, 1, 2, 3
	changeCreate, changePut, changeReplace          = 0, 1, 2
	changeDelete, changeRemove                      = 3, 4
	answerValue, answerValues, answerWritten        = 0, 1, 2
	answerWatching                                  = 3
	errorRefused, errorInvalid, errorSpansShards    = 0, 1, 2
	errorTimeout, errorBusy, errorElsewhere         = 3, 4, 5
	errorRPC, errorDisk, errorTooLarge              = 6, 7, 8
	refusalCondition, refusalExists, refusalMissing = 0, 1, 2
	refusalForgotten                                = 4
	eventPut, eventDeleted, eventReset              = 0, 1, 2
)

// writer appends values in postcard's format.
type writer struct{ bytes []byte }

func (w *writer) number(n uint64) { w.bytes = binary.AppendUvarint(w.bytes, n) }
func (w *writer) text(s string) {
	w.number(uint64(len(s)))
	w.bytes = append(w.bytes, s...)
}
func (w *writer) numbers(all ...uint64) {
	for _, n := range all {
		w.number(n)
	}
}

// location writes a path of the `config` datastore.
func (w *writer) location(path string) {
	w.number(0)
	w.text(path)
}

var errShort = errors.New("the message is shorter than its type")

// reader takes values in postcard's format. The first error stays, and everything after it is zero.
type reader struct {
	bytes []byte
	err   error
}

func (r *reader) number() uint64 {
	n, used := binary.Uvarint(r.bytes)
	if used <= 0 {
		r.bytes, r.err = nil, errShort
		return 0
	}
	r.bytes = r.bytes[used:]
	return n
}

func (r *reader) text() string {
	length := r.number()
	if length > uint64(len(r.bytes)) {
		r.bytes, r.err = nil, errShort
		return ""
	}
	text := string(r.bytes[:length])
	r.bytes = r.bytes[length:]
	return text
}

func (r *reader) flag() bool { return r.number() != 0 }

// writeFrame sends one message.
func writeFrame(to io.Writer, body []byte) error {
	frame := binary.LittleEndian.AppendUint32(make([]byte, 0, 4+len(body)), uint32(len(body)))
	_, err := to.Write(append(frame, body...))
	return err
}

// readFrame waits for the next message.
func readFrame(from io.Reader) ([]byte, error) {
	var header [4]byte
	if _, err := io.ReadFull(from, header[:]); err != nil {
		return nil, err
	}
	length := binary.LittleEndian.Uint32(header[:])
	if length > frameMax {
		return nil, fmt.Errorf("a frame of %d bytes", length)
	}
	body := make([]byte, length)
	_, err := io.ReadFull(from, body)
	return body, err
}

func hello(session uint64) []byte {
	var w writer
	w.numbers(magic, protocolVersion, 0, session)
	return w.bytes
}

// welcome says why a server refuses us, if it does.
func welcome(body []byte) error {
	r := reader{bytes: body}
	if r.number() != 0 {
		return fmt.Errorf("refused: %s", r.text())
	}
	return r.err
}

// request is a ClientMessage::Request whose body `fill` writes.
func request(session, sequence, acknowledged uint64, timeoutMs uint32, fill func(*writer)) []byte {
	var w writer
	w.numbers(0, session, sequence, acknowledged, uint64(timeoutMs))
	fill(&w)
	return w.bytes
}

// tagged is a value with its entity tag.
type tagged struct {
	path  string
	tag   uint64
	value string
}

// failure is an answer's error.
type failure struct {
	kind    uint64
	refusal uint64
	text    string
	servers []string
}

// answer is what came of a request.
type answer struct {
	sequence uint64
	failure  *failure
	kind     uint64
	values   []tagged
	more     bool
	revision uint64
	from     map[uint64]uint64
}

// event is a change that a watch delivers.
type event struct {
	revision uint64
	kind     uint64
	tag      uint64
	path     string
}

// events are what a watch delivers of one shard at once.
type events struct {
	watch, shard, revision uint64
	skipped                bool
	all                    []event
}

// serverMessage is an answer or events; both are nil for a message that we never ask for.
func serverMessage(body []byte) (*answer, *events, error) {
	r := reader{bytes: body}
	switch r.number() {
	case 0:
		got := r.answer()
		return got, nil, r.err
	case 1:
		got := r.events()
		return nil, got, r.err
	}
	return nil, nil, r.err
}

func (r *reader) answer() *answer {
	got := answer{sequence: r.number()}
	if r.flag() {
		// Shard, server and address of the leader.
		r.number()
		r.number()
		r.text()
	}
	if r.number() != 0 {
		got.failure = r.failure()
		return &got
	}
	got.kind = r.number()
	switch got.kind {
	case answerValue:
		if r.flag() {
			got.values = []tagged{{tag: r.number(), value: r.text()}}
		}
	case answerValues:
		for range r.number() {
			if r.err != nil {
				break
			}
			got.values = append(got.values, tagged{path: r.text(), tag: r.number(), value: r.text()})
		}
		got.more = r.flag()
	case answerWritten:
		got.revision = r.number()
	case answerWatching:
		got.from = map[uint64]uint64{}
		for range r.number() {
			if r.err != nil {
				break
			}
			shard := r.number()
			got.from[shard] = r.number()
		}
	}
	return &got
}

func (r *reader) failure() *failure {
	got := failure{kind: r.number()}
	switch got.kind {
	case errorRefused:
		got.refusal = r.number()
	case errorTimeout:
		r.number()
		got.text = r.text()
	case errorBusy:
		r.number()
	case errorElsewhere:
		got.text = r.text()
		for range r.number() {
			if r.err != nil {
				break
			}
			got.servers = append(got.servers, r.text())
		}
	case errorInvalid, errorRPC, errorDisk:
		got.text = r.text()
	}
	return &got
}

func (r *reader) events() *events {
	got := events{watch: r.number(), shard: r.number(), revision: r.number(), skipped: r.flag()}
	for range r.number() {
		if r.err != nil {
			break
		}
		one := event{revision: r.number(), kind: r.number()}
		if one.kind == eventPut {
			one.tag = r.number()
			r.text()
		}
		// The datastore, which is always the one that we asked for.
		r.number()
		one.path = r.text()
		got.all = append(got.all, one)
	}
	return &got
}
