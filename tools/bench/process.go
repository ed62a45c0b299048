package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// process is a child that writes to a log file.
type process struct {
	cmd  *exec.Cmd
	log  string
	done chan error
}

func newProcess(path, log string, args ...string) *process {
	return &process{cmd: exec.Command(path, args...), log: log, done: make(chan error, 1)}
}

func (p *process) start() error {
	out, err := os.Create(p.log)
	if err != nil {
		return fmt.Errorf("create log: %w", err)
	}
	defer out.Close()
	p.cmd.Stdout, p.cmd.Stderr = out, out
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.cmd.Path, err)
	}
	go func() { p.done <- p.cmd.Wait() }()
	return nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// end is what the process wrote last.
func (p *process) end() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return tail(string(b))
}

const stopTimeout = 20 * time.Second

func (p *process) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-p.done:
		return err
	case <-time.After(stopTimeout):
		_ = p.cmd.Process.Kill()
		return errors.Join(fmt.Errorf("stop %s: had to be killed", p.cmd.Path), <-p.done)
	}
}

// residentMemory of a process in bytes; 0 where it is not known.
func residentMemory(pid int) int64 { return memoryLine(pid, "VmRSS:") }

// peakMemory is the highest that residentMemory has been.
func peakMemory(pid int) int64 { return memoryLine(pid, "VmHWM:") }

func memoryLine(pid int, name string) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			var kib int64
			if _, err := fmt.Sscanf(strings.TrimSpace(rest), "%d kB", &kib); err == nil {
				return kib << 10
			}
		}
	}
	return 0
}

func mebibytes(n int64) string {
	if n == 0 {
		return "unknown"
	}
	return fmt.Sprintf("%d MiB", n>>20)
}
