package main

import (
	"context"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// How long a write is waited for before it is sent again: one that went to the dead leader is never answered.
const attempt = 20 * time.Millisecond

// election kills the leader (SIGKILL) and takes the time to the first write that succeeds at one of the other servers.
func election(o options) ([]row, error) {
	found, err := leader(o.endpoints)
	if err != nil {
		return nil, err
	}
	var others []*clientv3.Client
	for i, endpoint := range o.endpoints {
		if i == found {
			continue
		}
		client, err := dial(endpoint)
		if err != nil {
			return nil, err
		}
		defer client.Close()
		// Connected and of use before the clock starts.
		if err := ask(client, "create", "/warm-up", "x"); err != nil {
			return nil, err
		}
		others = append(others, client)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	start := time.Now()
	if err := syscall.Kill(o.pids[found], syscall.SIGKILL); err != nil {
		return nil, err
	}
	took, err := firstWrite(ctx, others, start)
	if err != nil {
		return nil, err
	}
	o.clients, o.at = len(others), "any"
	return []row{summary(o, "election", []time.Duration{took}, took)}, nil
}

// firstWrite asks all servers at once, again and again, and gives the time from `start` to the first success.
func firstWrite(ctx context.Context, servers []*clientv3.Client, start time.Time) (time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	first := make(chan time.Duration, len(servers))
	for _, server := range servers {
		go func() {
			for ctx.Err() == nil {
				one, end := context.WithTimeout(ctx, attempt)
				_, err := server.Put(one, "/election", "x")
				end()
				if err == nil {
					first <- time.Since(start)
					return
				}
			}
		}()
	}
	select {
	case took := <-first:
		return took, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}
