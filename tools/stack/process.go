package stack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"millwright/tools/child"
)

const stopTimeout = 25 * time.Second

// Process is a child process that can be started again with the same arguments.
type Process struct {
	Name string
	path string
	args []string
	env  []string
	log  string

	mu    sync.Mutex
	cmd   *exec.Cmd
	ended chan struct{}
	err   error
}

// Start runs the process; it must not be running.
func (p *Process) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open log of %s: %w", p.Name, err)
	}
	defer log.Close()
	cmd := exec.Command(p.path, p.args...)
	cmd.Env = append(os.Environ(), p.env...)
	cmd.Stdout, cmd.Stderr = log, log
	result, err := child.Start(cmd)
	if err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	ended := make(chan struct{})
	go func() {
		err := <-result
		p.mu.Lock()
		p.err = err
		p.mu.Unlock()
		close(ended)
	}()
	p.cmd, p.ended, p.err = cmd, ended, nil
	return nil
}

// With adds arguments to those the process is started with from now on.
func (p *Process) With(args ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.args = append(p.args, args...)
}

// Pid of the running process; 0 if it is not running.
func (p *Process) Pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil || p.cmd.Process == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

// Err is how the process ended.
func (p *Process) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// Signal sends a signal to the process.
func (p *Process) Signal(sig syscall.Signal) error {
	pid := p.Pid()
	if pid == 0 {
		return fmt.Errorf("signal %s: not running", p.Name)
	}
	return syscall.Kill(pid, sig)
}

// Kill ends the process with SIGKILL and waits for it.
func (p *Process) Kill() error {
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.Ended()
	return nil
}

// Stop ends the process with SIGTERM, after a deadline with SIGKILL, and waits for it.
func (p *Process) Stop() error {
	if p.Pid() == 0 {
		return nil
	}
	_ = p.Signal(syscall.SIGTERM)
	select {
	case <-p.Ended():
		return nil
	case <-time.After(stopTimeout):
		_ = p.Kill()
		return fmt.Errorf("stop %s: had to be killed", p.Name)
	}
}

// Restart starts the process again after it was killed or stopped.
func (p *Process) Restart() error {
	select {
	case <-p.Ended():
	default:
		return fmt.Errorf("restart %s: still running", p.Name)
	}
	return p.Start()
}

// Use makes the next start run another binary of the same directory.
func (p *Process) Use(binary string) { p.path = filepath.Join(filepath.Dir(p.path), binary) }

// Log returns the path of the file the process writes to.
func (p *Process) Log() string { return p.log }

// await polls until try succeeds, the process ends, or the deadline passes.
func (p *Process) await(ctx context.Context, timeout time.Duration, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-p.Ended():
			return fmt.Errorf("wait for %s: it ended: %v\n%s", p.Name, p.Err(), tail(p.log, 20))
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w\n%s", p.Name, errors.Join(ctx.Err(), err), tail(p.log, 20))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (s *Stack) process(name, binary string, env []string, args ...string) *Process {
	p := &Process{
		Name: name, path: filepath.Join(s.opts.BinDir, binary), args: args, env: env,
		log: filepath.Join(s.opts.Dir, "logs", name+".log"),
	}
	s.procs = append(s.procs, p)
	return p
}
