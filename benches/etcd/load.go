package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// The longest that one request of the load may take.
const patience = 10 * time.Second

// options of a load; the same as those of `heddle cluster bench`.
type options struct {
	endpoints  []string
	pids       []int
	at         string
	requests   int
	repeat     int
	valueBytes int
	clients    int
	operations []string
}

// row says how long the requests of one operation took, all rounds together.
type row struct {
	Operation string  `json:"operation"`
	Clients   int     `json:"clients"`
	At        string  `json:"at"`
	Requests  int     `json:"requests"`
	MinMs     float64 `json:"min-ms"`
	MeanMs    float64 `json:"mean-ms"`
	P50Ms     float64 `json:"p50-ms"`
	P99Ms     float64 `json:"p99-ms"`
	MaxMs     float64 `json:"max-ms"`
	PerSecond float64 `json:"per-second"`
}

// load asks a cluster and prints a JSON list of rows.
func load(arguments []string) error {
	options, err := parse(arguments)
	if err != nil {
		return err
	}
	var rows []row
	if slices.Contains(options.operations, "election") {
		rows, err = election(options)
	} else {
		rows, err = measure(options)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(rows)
}

func parse(arguments []string) (options, error) {
	flags := flag.NewFlagSet("load", flag.ExitOnError)
	endpoints := flags.String("endpoints", "127.0.0.1:2379", "all servers' client addresses, by commas")
	operations := flags.String("operations", "create,read,update,delete", "in this order; or `election` alone")
	pids := flags.String("pids", "", "for `election`: the servers' process ids, in the order of -endpoints")
	var o options
	flags.StringVar(&o.at, "at", "leader", "who is asked: leader, follower or any")
	flags.IntVar(&o.requests, "requests", 500, "requests of each operation in a round, by all clients together")
	flags.IntVar(&o.repeat, "repeat", 5, "rounds")
	flags.IntVar(&o.valueBytes, "value-bytes", 200, "bytes of each value")
	flags.IntVar(&o.clients, "clients", 1, "clients that ask at once; each waits for its answer before it asks again")
	_ = flags.String("o", "json", "the form of the output: json")
	if err := flags.Parse(arguments); err != nil {
		return o, err
	}
	o.endpoints, o.operations = strings.Split(*endpoints, ","), strings.Split(*operations, ",")
	if *pids != "" {
		for _, text := range strings.Split(*pids, ",") {
			var pid int
			if _, err := fmt.Sscan(text, &pid); err != nil || pid <= 1 {
				return o, fmt.Errorf("%q is not a process id", text)
			}
			o.pids = append(o.pids, pid)
		}
	}
	return o, check(o)
}

func check(o options) error {
	known := []string{"create", "read", "update", "delete", "election"}
	for _, operation := range o.operations {
		if !slices.Contains(known, operation) {
			return fmt.Errorf("there is no operation %q\nhint: write %s", operation, strings.Join(known, ", "))
		}
	}
	switch {
	case !slices.Contains([]string{"leader", "follower", "any"}, o.at):
		return fmt.Errorf("-at %q is unknown\nhint: write leader, follower or any", o.at)
	case o.requests < 1 || o.repeat < 1 || o.clients < 1 || o.valueBytes < 0:
		return fmt.Errorf("-requests, -repeat and -clients are at least 1, -value-bytes at least 0")
	case slices.Contains(o.operations, "election") && (len(o.operations) > 1 || len(o.pids) != len(o.endpoints)):
		return fmt.Errorf("`election` stands alone and needs -pids, one for each of -endpoints")
	}
	return nil
}

// dial connects to one server and no other, so that where a request is asked is known.
func dial(endpoint string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
}

// leader waits until all servers agree on a leader, and gives its place in the list.
func leader(endpoints []string) (int, error) {
	deadline := time.Now().Add(30 * time.Second)
	for time.Now().Before(deadline) {
		if found, ok := agreed(endpoints); ok {
			return found, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return 0, fmt.Errorf("the servers %v did not agree on a leader within 30 s", endpoints)
}

func agreed(endpoints []string) (int, bool) {
	found, said := -1, uint64(0)
	for i, endpoint := range endpoints {
		client, err := dial(endpoint)
		if err != nil {
			return 0, false
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		status, err := client.Status(ctx, endpoint)
		cancel()
		client.Close()
		if err != nil || status.Leader == 0 || said != 0 && status.Leader != said {
			return 0, false
		}
		said = status.Leader
		if status.Header.MemberId == said {
			found = i
		}
	}
	return found, found >= 0
}

// asked gives the servers that the load asks.
func asked(o options) ([]string, error) {
	found, err := leader(o.endpoints)
	switch {
	case err != nil:
		return nil, err
	case o.at == "leader":
		return o.endpoints[found : found+1], nil
	case o.at == "any":
		return o.endpoints, nil
	case len(o.endpoints) == 1:
		return nil, fmt.Errorf("one server has no follower")
	}
	next := (found + 1) % len(o.endpoints)
	return o.endpoints[next : next+1], nil
}

// measure runs all rounds of all operations, in their order.
func measure(o options) ([]row, error) {
	servers, err := asked(o)
	if err != nil {
		return nil, err
	}
	clients := make([]*clientv3.Client, o.clients)
	for i := range clients {
		if clients[i], err = dial(servers[i%len(servers)]); err != nil {
			return nil, err
		}
		defer clients[i].Close()
		// A first request of each connection, so that none of the measured ones pays for connecting.
		if err := ask(clients[i], "read", "/warm-up", ""); err != nil {
			return nil, err
		}
	}
	latencies := make([][]time.Duration, len(o.operations))
	elapsed := make([]time.Duration, len(o.operations))
	for round := range o.repeat {
		for i, operation := range o.operations {
			// What is read, changed or deleted must be there; where the load doesn't create it, this is not measured.
			if i == 0 && operation != "create" {
				if _, _, err := requests(o, clients, "create", round); err != nil {
					return nil, err
				}
			}
			took, wall, err := requests(o, clients, operation, round)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", operation, err)
			}
			latencies[i] = append(latencies[i], took...)
			elapsed[i] += wall
		}
	}
	rows := make([]row, len(o.operations))
	for i, operation := range o.operations {
		rows[i] = summary(o, operation, latencies[i], elapsed[i])
	}
	return rows, nil
}

// requests asks o.requests times; each client draws the next key when it has its answer. Gives each latency, and the time of all.
func requests(o options, clients []*clientv3.Client, operation string, round int) ([]time.Duration, time.Duration, error) {
	value := strings.Repeat(string(rune('a'+round%26)), o.valueBytes)
	took := make([]time.Duration, o.requests)
	var next atomic.Int64
	var failed atomic.Pointer[error]
	var all sync.WaitGroup
	start := time.Now()
	for _, client := range clients {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(o.requests); i = next.Add(1) - 1 {
				before := time.Now()
				if err := ask(client, operation, fmt.Sprintf("/car:cars/car-entry=%d", i), value); err != nil {
					failed.CompareAndSwap(nil, &err)
					return
				}
				took[i] = time.Since(before)
			}
		})
	}
	all.Wait()
	wall := time.Since(start)
	if err := failed.Load(); err != nil {
		return nil, 0, *err
	}
	return took, wall, nil
}

// ask makes one request. Reads are linearizable, which is etcd's default.
func ask(client *clientv3.Client, operation, key, value string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	switch operation {
	case "read":
		answer, err := client.Get(ctx, key)
		if err == nil && value != "" && len(answer.Kvs) != 1 {
			return fmt.Errorf("%s was not found", key)
		}
		return err
	case "delete":
		answer, err := client.Delete(ctx, key)
		if err == nil && answer.Deleted != 1 {
			return fmt.Errorf("%s was not there to be deleted", key)
		}
		return err
	default:
		_, err := client.Put(ctx, key, value)
		return err
	}
}

func summary(o options, operation string, took []time.Duration, wall time.Duration) row {
	slices.Sort(took)
	var sum time.Duration
	for _, one := range took {
		sum += one
	}
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	n := len(took)
	return row{
		Operation: operation, Clients: o.clients, At: o.at, Requests: n,
		MinMs: ms(took[0]), MeanMs: ms(sum) / float64(n), P50Ms: ms(quantile(took, 50)), P99Ms: ms(quantile(took, 99)),
		MaxMs: ms(took[n-1]), PerSecond: float64(n) / wall.Seconds(),
	}
}

// quantile gives the least value that `percent` of all are not above (nearest rank).
func quantile(sorted []time.Duration, percent int) time.Duration {
	return sorted[(len(sorted)*percent+99)/100-1]
}
