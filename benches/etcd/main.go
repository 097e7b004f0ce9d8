// Command etcd-bench is the peer in the benchmarks of the controller cluster: `node` runs one etcd server, `load` asks a
// cluster for creates, reads, updates and deletes and prints how long they took, in the same form as `heddle cluster bench`.
package main

import (
	"fmt"
	"os"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "etcd-bench:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) == 0 {
		return fmt.Errorf("expected `node` or `load`\nhint: `etcd-bench load -help` shows the options")
	}
	switch arguments[0] {
	case "node":
		return node(arguments[1:])
	case "load":
		return load(arguments[1:])
	default:
		return fmt.Errorf("there is no command %q\nhint: write `node` or `load`", arguments[0])
	}
}
