package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// server is one controller: a process, a namespace, a disk.
type server struct {
	number int
	// Its name in the cluster; a server on an empty folder gets a new one.
	name    string
	births  int
	process *exec.Cmd
	ended   chan struct{}
	stopped bool
	// It is being taken out of the cluster, and must not run.
	leaving bool
	// The cluster has said that it is a member.
	member bool
	// What the clocks that do not go back show ahead of the machine's, in seconds.
	ahead int64
}

// servers are all of them.
type servers struct {
	heddle string
	work   string
	disk   string
	mutex  sync.Mutex
	all    []*server
	// Ends that nobody asked for, and what the log says last.
	deaths []string
	closed bool
}

func (s *servers) folder(number int) string {
	return filepath.Join(s.work, fmt.Sprintf("disk%d", number))
}
func (s *servers) log(number int) string {
	return filepath.Join(s.work, fmt.Sprintf("server%d.log", number))
}
func (s *servers) certificate(name string) []string {
	tls := filepath.Join(s.work, "tls")
	return []string{"--tls-cert", filepath.Join(tls, name+".pem"), "--tls-key", filepath.Join(tls, name+".key"),
		"--tls-ca", filepath.Join(tls, "ca.pem")}
}

func newServers(heddle, work, disk string, count int) (*servers, error) {
	s := &servers{heddle: heddle, work: work, disk: disk}
	arguments := []string{"controller", "certificates", "--out", filepath.Join(work, "tls")}
	for number := 1; number <= count; number++ {
		s.all = append(s.all, &server{number: number, name: fmt.Sprintf("s%d", number)})
		arguments = append(arguments, serverAddress(number))
		// A disk of its own, so that it can be full.
		folder := s.folder(number)
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return nil, err
		}
		if err := syscall.Mount("nemesis", folder, "tmpfs", 0, "size="+disk); err != nil {
			return nil, fmt.Errorf("mount %s: %w", folder, err)
		}
	}
	return s, run(heddle, arguments...)
}

// start runs a server; `join` says that its folder is empty and that it has to join the others.
func (s *servers) start(number int, more ...string) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	one := s.all[number-1]
	if one.process != nil || one.leaving {
		return nil
	}
	log, err := os.OpenFile(s.log(number), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	address := fmt.Sprintf("%s:%d", serverAddress(number), port)
	arguments := []string{"--net=/run/netns/" + namespace(number)}
	if one.ahead != 0 {
		ahead := fmt.Sprint(one.ahead)
		arguments = append(arguments, "unshare", "--time", "--boottime", ahead, "--monotonic", ahead)
	}
	arguments = append(arguments, s.heddle, "controller", "--node", one.name, "--data", filepath.Join(s.folder(number), "data"),
		"--listen", address)
	arguments = append(arguments, s.certificate(serverAddress(number))...)
	// The same command line starts it again: joining is done once.
	if number > 1 || one.births > 0 {
		var others []string
		for _, other := range s.all {
			if other.number != number {
				others = append(others, fmt.Sprintf("%s:%d", serverAddress(other.number), port))
			}
		}
		arguments = append(arguments, "--join", strings.Join(others, ","))
	}
	arguments = append(arguments, more...)
	fmt.Fprintf(log, "--- nemesis starts: nsenter %s\n", strings.Join(arguments, " "))
	command := exec.Command("nsenter", arguments...)
	command.Stdout, command.Stderr = log, log
	command.Env = append(os.Environ(), "HEDDLE_LOG=info", "RUST_BACKTRACE=1")
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		return err
	}
	one.process, one.ended, one.stopped = command, make(chan struct{}), false
	go s.await(one, command, one.ended)
	return nil
}

// await notes the end of a process that nobody asked for.
func (s *servers) await(one *server, command *exec.Cmd, ended chan struct{}) {
	err := command.Wait()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	close(ended)
	if one.process == command {
		one.process = nil
		if !s.closed && !one.leaving {
			s.deaths = append(s.deaths, fmt.Sprintf("server %d: %v: %s", one.number, err, lastLine(s.log(one.number))))
		}
	}
}

func lastLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}

// kill ends a server at once, as a crash does, and waits until it has ended.
func (s *servers) kill(number int) {
	s.mutex.Lock()
	one := s.all[number-1]
	command, ended := one.process, one.ended
	one.process, one.stopped = nil, false
	s.mutex.Unlock()
	if command != nil {
		_ = command.Process.Kill()
		<-ended
	}
}

// ends waits until a server has ended by itself, and says whether it has.
func (s *servers) ends(number int, patience time.Duration) bool {
	s.mutex.Lock()
	one := s.all[number-1]
	command, ended := one.process, one.ended
	s.mutex.Unlock()
	if command == nil {
		return true
	}
	select {
	case <-ended:
		return true
	case <-time.After(patience):
		return false
	}
}

// pause stops a process, or lets it go on.
func (s *servers) pause(number int, stopped bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	one := s.all[number-1]
	if one.process == nil {
		return
	}
	signal := syscall.SIGCONT
	if stopped {
		signal = syscall.SIGSTOP
	}
	one.stopped = stopped
	_ = one.process.Process.Signal(signal)
}

// fileLimit bounds the size of files that a server may write; 0 lifts that.
func (s *servers) fileLimit(number int, bytes uint64) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	one := s.all[number-1]
	if one.process == nil {
		return nil
	}
	limit := unix.Rlimit{Cur: bytes, Max: unix.RLIM_INFINITY}
	if bytes == 0 {
		limit.Cur = unix.RLIM_INFINITY
	}
	return unix.Prlimit(one.process.Process.Pid, unix.RLIMIT_FSIZE, &limit, nil)
}

// fill takes all room of a server's disk but `left` bytes, or gives it back.
func (s *servers) fill(number int, full bool, left int64) error {
	filler := filepath.Join(s.folder(number), "filler")
	if !full {
		if err := os.Remove(filler); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	}
	var room unix.Statfs_t
	if err := unix.Statfs(s.folder(number), &room); err != nil {
		return err
	}
	file, err := os.Create(filler)
	if err != nil {
		return err
	}
	defer file.Close()
	bytes := int64(room.Bavail)*int64(room.Bsize) - left
	if bytes <= 0 {
		return nil
	}
	return unix.Fallocate(int(file.Fd()), 0, 0, bytes)
}

// used gives the bytes of a server's data, in MiB.
func (s *servers) used(number int) int64 {
	var room unix.Statfs_t
	if unix.Statfs(s.folder(number), &room) != nil {
		return 0
	}
	return int64(room.Blocks-room.Bfree) * int64(room.Bsize) >> 20
}

// leave says that a server must not run until it has been taken out of the cluster, or that it may again.
func (s *servers) leave(number int, is bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.all[number-1].leaving = is
}

// sawMember notes whether a server is a member, and says whether it ever was.
func (s *servers) sawMember(number int, is bool) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	one := s.all[number-1]
	one.member = one.member || is
	return one.member
}

// leaving are those that are being taken out.
func (s *servers) leaving() []int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var all []int
	for _, one := range s.all {
		if one.leaving {
			all = append(all, one.number)
		}
	}
	return all
}

// wipe empties the folder of a server that runs no more, and gives it a new name.
func (s *servers) wipe(number int) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	one := s.all[number-1]
	one.births++
	one.member = false
	one.name = fmt.Sprintf("s%d-%d", number, one.births)
	return os.RemoveAll(filepath.Join(s.folder(number), "data"))
}

// heal starts whatever is down and lets everything run.
func (s *servers) heal() error {
	for number := 1; number <= len(s.all); number++ {
		if err := s.fill(number, false, 0); err != nil {
			return err
		}
		s.pause(number, false)
		if err := s.fileLimit(number, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
		if err := s.start(number); err != nil {
			return err
		}
	}
	return nil
}

// end kills all servers.
func (s *servers) end() {
	s.mutex.Lock()
	s.closed = true
	s.mutex.Unlock()
	for number := range s.all {
		s.kill(number + 1)
	}
}

// name of a server in the cluster.
func (s *servers) name(number int) string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.all[number-1].name
}

// cluster runs `heddle cluster ...` as a client.
func (s *servers) cluster(patience time.Duration, arguments ...string) (string, error) {
	var endpoints []string
	for number := range s.all {
		endpoints = append(endpoints, fmt.Sprintf("%s:%d", serverAddress(number+1), port))
	}
	all := append([]string{"cluster", "--endpoints", strings.Join(endpoints, ","), "--timeout", fmt.Sprintf("%ds", int(patience.Seconds()))},
		s.certificate("client")...)
	command := exec.Command(s.heddle, append(all, arguments...)...)
	// Were it to hang, the program would.
	command.WaitDelay = time.Second
	timer := time.AfterFunc(3*patience+5*time.Second, func() { _ = command.Process.Kill() })
	defer timer.Stop()
	said, err := command.CombinedOutput()
	return string(said), err
}

// unmount gives the disks back.
func (s *servers) unmount() {
	for _, one := range s.all {
		_ = syscall.Unmount(s.folder(one.number), syscall.MNT_DETACH)
	}
}
