package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"time"
)

// How long one entry may be judged, and how long the cluster may take to recover at the end.
const (
	judgeTime   = 60 * time.Second
	recoverTime = 2 * time.Minute
)

// campaign is one run.
type campaign struct {
	options
	work    string
	log     *os.File
	clock   clock
	judges  judges
	servers *servers
	network *network
	load    *load
	nemesis *nemesis

	watchers []*watcher
	once     sync.Once
	ended    chan struct{}

	mutex      sync.Mutex
	violations []string
	undecided  int
	judged     int
	operations int
	open       int
}

// end ends the faults; the rest follows.
func (c *campaign) end() { c.once.Do(func() { close(c.ended) }) }

func (c *campaign) logf(format string, arguments ...any) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	fmt.Fprintf(c.log, "%10.3f %s\n", float64(c.clock.now())/1e9, fmt.Sprintf(format, arguments...))
}

func (c *campaign) violation(text string) {
	c.logf("VIOLATION: %s", text)
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.violations = append(c.violations, text)
}

func (c *campaign) carryOut() error {
	var err error
	if c.network, err = newNetwork(c.options.servers); err != nil {
		return err
	}
	if c.servers, err = newServers(c.heddle, c.work, c.disk, c.options.servers); err != nil {
		return err
	}
	defer c.servers.end()
	connector, err := newConnector(c.servers)
	if err != nil {
		return err
	}
	c.load = newLoad(c.clock, connector, c.pause)
	c.nemesis = &nemesis{random: seeded(c.seed, 0), servers: c.servers, network: c.network, load: c.load, counts: map[string]int{},
		failed: map[string]int{}, logf: c.logf}
	if c.options.faults != "none" {
		c.nemesis.faults, _ = chosenFaults(c.options.faults)
	}
	if err := c.nemesis.foundCluster(); err != nil {
		return err
	}
	fmt.Printf("%d servers, %d clients, %d watchers, seed %d, %v\n", c.options.servers, c.clients, c.options.watchers, c.seed, c.duration)
	return c.torment(connector)
}

// torment is the run itself: clients, watchers, faults and judges side by side.
func (c *campaign) torment(connector *connector) error {
	var working, watching, judging sync.WaitGroup
	watchEnd, judgeEnd, nemesisDone := make(chan struct{}), make(chan struct{}), make(chan struct{})
	for number := range c.options.watchers {
		one := newWatcher(number, connector, seeded(c.seed, 1_000+uint64(number)))
		c.watchers = append(c.watchers, one)
		watching.Go(func() { one.run(watchEnd) })
	}
	c.load.lastAnswer.Store(c.clock.now())
	for number := range c.clients {
		working.Go(func() { c.load.run(number, seeded(c.seed, 2_000+uint64(number))) })
	}
	judging.Go(func() { c.judge(judgeEnd) })
	timer := time.AfterFunc(c.duration, c.end)
	defer timer.Stop()
	go func() {
		defer close(nemesisDone)
		if len(c.nemesis.faults) > 0 {
			c.nemesis.run(c.ended)
		}
	}()
	c.report()
	<-nemesisDone
	recovered := c.recovers()
	close(c.load.ended)
	working.Wait()
	c.catchUp()
	close(watchEnd)
	watching.Wait()
	c.load.generation.Add(1)
	close(judgeEnd)
	judging.Wait()
	return c.summary(recovered)
}

// report prints a line every ten seconds until the faults end.
func (c *campaign) report() {
	for ticks := 1; ; ticks++ {
		if !sleep(c.ended, time.Second) {
			return
		}
		if ticks%int(generationTime.Seconds()) == 0 {
			c.load.generation.Add(1)
		}
		if ticks%10 == 0 {
			fmt.Println(c.progress())
		}
	}
}

func (c *campaign) progress() string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return fmt.Sprintf("%5.0f s: %d answered, %d unknown, %d faults, %d generations judged, %d violations, longest without an answer %.1f s",
		float64(c.clock.now())/1e9, c.load.answered.Load(), c.load.unknown.Load(), c.nemesis.injected.Load(), c.judged, len(c.violations),
		float64(c.load.longestGap.Load())/1e9)
}

// judge looks at each generation when its last operation has ended.
func (c *campaign) judge(ended <-chan struct{}) {
	for next, last := 0, false; ; {
		for c.load.isOver(next) {
			c.judgeOne(next)
			next++
		}
		if last {
			return
		}
		last = !sleep(ended, 200*time.Millisecond)
	}
}

func (c *campaign) judgeOne(generation int) {
	all := c.load.history.take(generation)
	open := 0
	for _, one := range all {
		if one.Return == nil && one.isWrite() {
			open++
		}
	}
	porcupine, own, err := c.judges.both(fmt.Sprintf("generation-%d", generation), all, judgeTime)
	if err != nil {
		c.violation(err.Error())
	}
	for name, verdict := range map[string]verdict{"Porcupine": porcupine, "our checker": own} {
		if verdict.result == wrong || verdict.result == "failed" {
			c.violation(fmt.Sprintf("generation %d: %s says: %s %s", generation, name, verdict.result, verdict.why))
		}
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.judged++
	c.operations += len(all)
	c.open += open
	if porcupine.result == undecided || own.result == undecided {
		c.undecided++
	}
}

// recovers waits until the cluster answers again when all faults are over.
func (c *campaign) recovers() error {
	before := c.clock.now()
	for end := time.Now().Add(recoverTime); time.Now().Before(end); time.Sleep(500 * time.Millisecond) {
		c.nemesis.recover()
		if err := c.nemesis.lookForRemoved(); err != nil {
			c.logf("members: %v", err)
		}
		if len(c.servers.leaving()) == 0 && c.nemesis.isWhole() {
			c.logf("recovered within %.1f s", float64(c.clock.now()-before)/1e9)
			// Clients finish what they have begun.
			time.Sleep(2 * time.Second)
			return nil
		}
	}
	got, err := c.nemesis.status()
	return fmt.Errorf("the cluster does not recover within %v after the last fault: %+v, %w", recoverTime, got, err)
}

// catchUp waits until the watchers have delivered everything.
func (c *campaign) catchUp() {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(500 * time.Millisecond) {
		missing := 0
		for _, one := range c.watchers {
			missing += len(one.missing(c.load.written))
		}
		if missing == 0 {
			return
		}
	}
}

// summary says what came of it; an error if anything is wrong.
func (c *campaign) summary(recovered error) error {
	if recovered != nil {
		c.violation(recovered.Error())
	}
	for _, text := range c.load.strange {
		c.violation(text)
	}
	watched, skips := 0, 0
	for _, one := range c.watchers {
		for _, text := range one.found {
			c.violation(text)
		}
		if missing := one.missing(c.load.written); len(missing) > 0 {
			c.violation(fmt.Sprintf("watcher %d did not deliver %d writes, such as %+v; watching: %v %s", one.number, len(missing), missing[0],
				one.watching, one.refusals))
		}
		watched, skips = watched+one.events, skips+one.skips
	}
	fmt.Println(c.progress())
	fmt.Printf("operations       %d: %d answered (%d refused), %d unknown, %d of them writes that stay open\n", c.operations,
		c.load.answered.Load(), c.load.refused.Load(), c.load.unknown.Load(), c.open)
	fmt.Printf("asked again      %s\n", counted(c.load.repeated))
	fmt.Printf("faults           %s\n", counted(c.nemesis.counts))
	fmt.Printf("not carried out  %s\n", counted(c.nemesis.failed))
	fmt.Printf("watchers         %d events, %d times `skipped`, %d writes to deliver\n", watched, skips, len(c.load.written))
	fmt.Printf("without answers  %.1f s at most\n", float64(c.load.longestGap.Load())/1e9)
	fmt.Printf("ended by itself  %d times a server\n", len(c.servers.deaths))
	for _, text := range c.servers.deaths[:min(len(c.servers.deaths), 20)] {
		fmt.Printf("                 %.200s\n", text)
	}
	fmt.Printf("verdict          %d generations: %d violations, %d undecided\n", c.judged, len(c.violations), c.undecided)
	for _, text := range c.violations[:min(len(c.violations), 20)] {
		fmt.Printf("VIOLATION        %.600s\n", text)
	}
	if len(c.violations) > 0 {
		return fmt.Errorf("%d violations", len(c.violations))
	}
	return nil
}

// counted shows counters in order.
func counted(all map[string]int) string {
	var texts []string
	for name, count := range all {
		texts = append(texts, fmt.Sprintf("%s %d", name, count))
	}
	sort.Strings(texts)
	if len(texts) == 0 {
		return "nothing"
	}
	return strings.Join(texts, ", ")
}

// keep copies logs and histories to where they stay. The servers' data come along.
func (c *campaign) keep() error {
	if err := os.MkdirAll(c.options.keep, 0o755); err != nil {
		return err
	}
	names, err := filepath.Glob(filepath.Join(c.work, "*"))
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".log") || strings.HasSuffix(name, ".jsonl") {
			if said, err := exec.Command("cp", name, c.options.keep).CombinedOutput(); err != nil {
				return fmt.Errorf("%w: %s", err, said)
			}
		}
	}
	return nil
}
