package main

import (
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"net"
	"time"
)

// What a request may take: an attempt at one server, and all attempts together.
const (
	attemptTime = 1 * time.Second
	requestTime = 20 * time.Second
	dialTime    = 700 * time.Millisecond
)

// addresses are those of the servers that may be asked; the nemesis never changes them, since a new server takes over an old one's.
type connector struct {
	addresses []string
	config    *tls.Config
}

// dial connects and says hello.
func (c *connector) dial(address string, session uint64) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: dialTime}
	conn, err := dialer.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	host, _, _ := net.SplitHostPort(address)
	config := c.config.Clone()
	config.ServerName = host
	stream := tls.Client(conn, config)
	_ = stream.SetDeadline(time.Now().Add(attemptTime))
	if err := greet(stream, session); err != nil {
		_ = stream.Close()
		return nil, err
	}
	_ = stream.SetDeadline(time.Time{})
	return stream, nil
}

func greet(stream net.Conn, session uint64) error {
	if err := writeFrame(stream, hello(session)); err != nil {
		return err
	}
	body, err := readFrame(stream)
	if err != nil {
		return err
	}
	return welcome(body)
}

// client is one session: it asks one thing after another.
type client struct {
	connector *connector
	random    *rand.Rand
	session   uint64
	sequence  uint64
	at        int
	conn      net.Conn
	// Attempts that had to be repeated, by reason.
	repeated map[string]int
}

func newClient(connector *connector, random *rand.Rand) *client {
	return &client{connector: connector, random: random, session: random.Uint64(), at: random.IntN(len(connector.addresses)),
		repeated: map[string]int{}}
}

func (c *client) leave(why string) {
	c.repeated[why]++
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
	c.at = c.random.IntN(len(c.connector.addresses))
}

var errUnknown = errors.New("no answer")

// ask sends a request until it is answered, everywhere with the same sequence, so that a write is carried out once.
func (c *client) ask(fill func(*writer)) (*answer, error) {
	c.sequence++
	// Sometimes it goes elsewhere without need: any server takes any request.
	if c.random.IntN(50) == 0 {
		c.leave("by choice")
	}
	for deadline := time.Now().Add(requestTime); time.Now().Before(deadline); {
		got, why := c.attempt(fill)
		if why == "" {
			return got, nil
		}
		c.repeated[why]++
		time.Sleep(time.Duration(10+c.random.IntN(90)) * time.Millisecond)
	}
	return nil, errUnknown
}

// attempt gives the answer, or why it has to be repeated.
func (c *client) attempt(fill func(*writer)) (*answer, string) {
	if c.conn == nil {
		conn, err := c.connector.dial(c.connector.addresses[c.at], c.session)
		if err != nil {
			c.leave("no connection")
			return nil, "no connection"
		}
		c.conn = conn
	}
	_ = c.conn.SetDeadline(time.Now().Add(attemptTime + attemptTime/2))
	body := request(c.session, c.sequence, c.sequence, uint32(attemptTime.Milliseconds()), fill)
	if err := writeFrame(c.conn, body); err != nil {
		c.leave("connection broke")
		return nil, "connection broke"
	}
	for {
		body, err := readFrame(c.conn)
		if err != nil {
			c.leave("connection broke")
			return nil, "connection broke"
		}
		got, _, err := serverMessage(body)
		if err != nil {
			c.leave("strange answer")
			return nil, "strange answer: " + err.Error()
		}
		// An answer to an earlier request is one that came too late.
		if got == nil || got.sequence != c.sequence {
			continue
		}
		return c.judge(got)
	}
}

// judge says whether an answer is one, or a reason to ask again.
func (c *client) judge(got *answer) (*answer, string) {
	if got.failure == nil {
		return got, ""
	}
	switch got.failure.kind {
	case errorRefused:
		switch got.failure.refusal {
		case refusalCondition, refusalExists, refusalMissing, refusalForgotten:
			return got, ""
		}
		return nil, "data on the move"
	case errorTimeout:
		return nil, "timeout at the server"
	case errorBusy:
		return nil, "busy"
	case errorElsewhere:
		c.leave("elsewhere")
		return nil, "elsewhere"
	case errorDisk:
		c.leave("disk")
		return nil, "disk"
	}
	return got, ""
}
