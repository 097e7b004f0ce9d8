// Command nemesis runs real controllers under real faults and judges the answers of their clients: `benches/nemesis.sh`.
//
// It starts itself again in namespaces of its own (network, mounts, processes), which vanish with it: whatever happens, no process,
// no network and no disk is left behind.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// options of a run.
type options struct {
	heddle, judge, keep, faults, disk string
	servers, clients, watchers        int
	duration, pause                   time.Duration
	seed                              uint64
	inside                            bool
}

func parse() (options, error) {
	var o options
	flag.StringVar(&o.heddle, "heddle", "", "the program heddle")
	flag.StringVar(&o.judge, "judge", "", "our checker: the example `judge` of heddle-sim")
	flag.StringVar(&o.keep, "keep", "nemesis-failure", "folder for logs and histories of a run that found something")
	flag.StringVar(&o.faults, "faults", "all", "all, none, or some of "+strings.Join(faultNames(), ","))
	flag.StringVar(&o.disk, "disk", "512m", "the size of each server's disk")
	flag.IntVar(&o.servers, "servers", 5, "servers: 3 to 9")
	flag.IntVar(&o.clients, "clients", 12, "clients")
	flag.IntVar(&o.watchers, "watchers", 6, "watchers")
	flag.DurationVar(&o.duration, "duration", time.Minute, "how long faults are injected, at most 12h")
	flag.DurationVar(&o.pause, "pause", 20*time.Millisecond, "a client's pause between two requests, on average")
	flag.Uint64Var(&o.seed, "seed", 1, "of all that is drawn by lot")
	flag.BoolVar(&o.inside, "inside", false, "started by itself, in its own namespaces")
	flag.Parse()
	switch {
	case flag.NArg() > 0:
		return o, fmt.Errorf("%q is not expected", flag.Arg(0))
	case o.heddle == "" || o.judge == "":
		return o, fmt.Errorf("-heddle and -judge are missing\nhint: benches/nemesis.sh builds both")
	case o.servers < 3 || o.servers > 9 || o.clients < 1 || o.clients > 200 || o.watchers < 0 || o.watchers > 50:
		return o, fmt.Errorf("expected 3 to 9 servers, 1 to 200 clients and at most 50 watchers")
	case o.duration <= 0 || o.duration > 12*time.Hour:
		return o, fmt.Errorf("-duration %v: expected at most 12h", o.duration)
	}
	_, err := chosenFaults(o.faults)
	if o.faults == "none" {
		err = nil
	}
	return o, err
}

func main() {
	o, err := parse()
	if err == nil && !o.inside {
		err = startInside()
	} else if err == nil {
		err = inside(o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "nemesis:", err)
		os.Exit(1)
	}
}

// startInside runs this program again in new namespaces, and hands signals on.
func startInside() error {
	command := exec.Command("/proc/self/exe", append([]string{"-inside"}, os.Args[1:]...)...)
	command.Stdin, command.Stdout, command.Stderr = nil, os.Stdout, os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
		Pdeathsig:  syscall.SIGKILL,
		Setpgid:    true,
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	if err := command.Start(); err != nil {
		return fmt.Errorf("new namespaces: %w\nhint: it needs root", err)
	}
	go func() {
		for one := range signals {
			_ = command.Process.Signal(one)
		}
	}()
	if err := command.Wait(); err != nil {
		if ended, is := err.(*exec.ExitError); is && ended.ExitCode() > 0 {
			os.Exit(ended.ExitCode())
		}
		return err
	}
	return nil
}

// prepareNamespaces makes mounts private, so that none is seen outside, and shows our own processes in /proc.
func prepareNamespaces() error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	return nil
}

func inside(o options) error {
	// All of its network is its own: were it not, rules and links would be made in somebody else's.
	if os.Getpid() != 1 {
		return fmt.Errorf("-inside is for itself alone")
	}
	if err := prepareNamespaces(); err != nil {
		return err
	}
	// The files lie on a real disk, so that they can be kept.
	work, err := os.MkdirTemp("", "heddle-nemesis.")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	run := &campaign{options: o, work: work, clock: clock{time.Now()}, judges: judges{own: o.judge, work: work}, ended: make(chan struct{})}
	if run.log, err = os.Create(filepath.Join(work, "nemesis.log")); err != nil {
		return err
	}
	defer run.log.Close()
	if err := run.judges.selfTest(); err != nil {
		return err
	}
	fmt.Printf("both judges find all %d planted histories right\n", len(plantedHistories()))
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		<-signals
		fmt.Println("ends early, as it was asked to")
		run.end()
	}()
	err = run.carryOut()
	if run.servers != nil {
		run.servers.unmount()
	}
	if err != nil {
		if kept := run.keep(); kept != nil {
			return fmt.Errorf("%w; logs cannot be kept: %w", err, kept)
		}
		return fmt.Errorf("%w\nlogs and histories: %s", err, o.keep)
	}
	return nil
}

// connectors for clients and watchers: all servers, a client's certificate.
func newConnector(s *servers) (*connector, error) {
	folder := filepath.Join(s.work, "tls")
	certificate, err := tls.LoadX509KeyPair(filepath.Join(folder, "client.pem"), filepath.Join(folder, "client.key"))
	if err != nil {
		return nil, err
	}
	authority, err := os.ReadFile(filepath.Join(folder, "ca.pem"))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("no certificate in ca.pem")
	}
	c := &connector{config: &tls.Config{Certificates: []tls.Certificate{certificate}, RootCAs: pool, MinVersion: tls.VersionTLS13}}
	for number := range s.all {
		c.addresses = append(c.addresses, fmt.Sprintf("%s:%d", serverAddress(number+1), port))
	}
	return c, nil
}

// seeded gives each part a generator of its own, so that what one draws does not depend on the others.
func seeded(seed, part uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, part)) }
