package main

import (
	"flag"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

// node runs one etcd server on loopback until SIGINT or SIGTERM. Log entries are synced to disk.
func node(arguments []string) error {
	flags := flag.NewFlagSet("node", flag.ExitOnError)
	name := flags.String("name", "n1", "this server's name in -cluster")
	data := flags.String("data", "", "its data folder")
	client := flags.Int("client", 2379, "the port for clients, on 127.0.0.1")
	peer := flags.Int("peer", 2380, "the port for other servers, on 127.0.0.1")
	cluster := flags.String("cluster", "", "all servers: n1=http://127.0.0.1:2380,..")
	election := flags.Duration("election-timeout", time.Second, "the election timeout; heartbeats are a tenth of it, at least 10ms")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if *data == "" || *cluster == "" {
		return fmt.Errorf("-data and -cluster are missing\nhint: -data /tmp/n1 -cluster n1=http://127.0.0.1:2380")
	}
	server, err := embed.StartEtcd(config(*name, *data, *cluster, *client, *peer, *election))
	if err != nil {
		return err
	}
	defer server.Close()
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGINT, syscall.SIGTERM)
	select {
	case <-end:
		return nil
	case err := <-server.Err():
		return err
	}
}

func config(name, data, cluster string, client, peer int, election time.Duration) *embed.Config {
	config := embed.NewConfig()
	config.Name, config.Dir, config.InitialCluster = name, data, cluster
	config.ListenClientUrls, config.AdvertiseClientUrls = loopback(client), loopback(client)
	config.ListenPeerUrls, config.AdvertisePeerUrls = loopback(peer), loopback(peer)
	config.ElectionMs = uint(election.Milliseconds())
	// etcd's own default is a tenth, too; it asks for at most a fifth.
	config.TickMs = max(config.ElectionMs/10, 10)
	config.LogLevel = "error"
	config.LogOutputs = []string{"stderr"}
	return config
}

func loopback(port int) []url.URL {
	return []url.URL{{Scheme: "http", Host: net.JoinHostPort("127.0.0.1", fmt.Sprint(port))}}
}
