package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	restartDelay = 500 * time.Millisecond
	// stopTimeout bounds how long a component may take to end after SIGTERM.
	stopTimeout = 10 * time.Second
	// gcPercent is the components' GOGC, where the environment sets none: a small cluster's garbage costs a
	// tenth of its CPU otherwise, and memory is not what machines that run several of them are short of.
	gcPercent = 300
)

// supervisor keeps components running until stop.
type supervisor struct {
	dataDir string
	mu      sync.Mutex
	order   []*child
}

// child is one component. quit is closed to end it, done when it has ended for good.
type child struct {
	name       string
	args       []string
	quit, done chan struct{}
}

func newSupervisor(dataDir string) *supervisor { return &supervisor{dataDir: dataDir} }

// start runs a component and starts it again whenever it ends.
func (s *supervisor) start(name string, args []string) {
	c := &child{name: name, args: args, quit: make(chan struct{}), done: make(chan struct{})}
	s.mu.Lock()
	s.order = append(s.order, c)
	s.mu.Unlock()
	go s.keep(c)
}

// stop ends the components, last started first, and waits for each.
func (s *supervisor) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range slices.Backward(s.order) {
		close(c.quit)
		<-c.done
	}
}

func (s *supervisor) keep(c *child) {
	defer close(c.done)
	for {
		if err := s.runOnce(c); err != nil {
			fmt.Fprintf(os.Stderr, "localcluster: %s: %v\n", c.name, err)
		}
		select {
		case <-c.quit:
			return
		case <-time.After(restartDelay):
		}
	}
}

// runOnce returns when the process ended; after quit it ends the process first.
func (s *supervisor) runOnce(c *child) error {
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find own binary: %w", err)
	}
	log, err := os.OpenFile(filepath.Join(s.dataDir, "logs", c.name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(exe, append([]string{c.name}, c.args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = childAttributes()
	if os.Getenv("GOGC") == "" {
		cmd.Env = append(os.Environ(), fmt.Sprintf("GOGC=%d", gcPercent))
	}
	ended, err := startLocked(cmd)
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	pid := filepath.Join(s.dataDir, "pids", c.name)
	if err := writeFile(pid, []byte(strconv.Itoa(cmd.Process.Pid))); err != nil {
		return err
	}
	select {
	case err := <-ended:
		return fmt.Errorf("ended, starting it again: %v", err)
	case <-c.quit:
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-ended:
	case <-time.After(stopTimeout):
		_ = cmd.Process.Kill()
		<-ended
	}
	return nil
}
