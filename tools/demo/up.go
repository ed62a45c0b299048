package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"millwright/tools/stack"
)

const upTimeout = 3 * time.Minute

// up starts `demo serve` in the background and returns when the stack is ready.
func up(ctx context.Context, dir, bin string) error {
	u := newUI(os.Stdout)
	if pid, ok := serving(dir); ok {
		u.line(yellow, "up", "already running (process %d); `make down` ends it", pid)
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create %s: %w", dir, err)
	}
	ready := filepath.Join(dir, "ready")
	_ = os.Remove(ready)
	log, err := os.Create(filepath.Join(dir, "serve.log"))
	if err != nil {
		return fmt.Errorf("create log: %w", err)
	}
	defer log.Close()
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find own binary: %w", err)
	}
	cmd := exec.Command(exe, "serve", "--dir", dir, "--bin", bin)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the stack: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	u.line(dim, "start", "control plane, EC2 simulator and Millwright")
	if err := awaitReady(ctx, ready, ended, log.Name()); err != nil {
		return err
	}
	text, err := os.ReadFile(ready)
	if err != nil {
		return fmt.Errorf("read %s: %w", ready, err)
	}
	u.title("The stack is up. Play with it:")
	u.block(string(text))
	return nil
}

func awaitReady(ctx context.Context, ready string, ended <-chan error, log string) error {
	deadline := time.After(upTimeout)
	for {
		if _, err := os.Stat(ready); err == nil {
			return nil
		}
		select {
		case err := <-ended:
			out, _ := os.ReadFile(log)
			return fmt.Errorf("start the stack: %v\n%s", err, out)
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline:
			return errors.New("start the stack: not ready in time, see " + log)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// serve runs the stack in the foreground until SIGTERM.
func serve(ctx context.Context, dir, bin string) error {
	pid := filepath.Join(dir, "pid")
	if err := os.WriteFile(pid, []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", pid, err)
	}
	defer os.Remove(pid)
	s, err := stack.Start(ctx, stack.Options{Dir: dir, BinDir: bin})
	if err != nil {
		return err
	}
	a, err := newApplier(s.Config())
	if err != nil {
		return errors.Join(err, s.Stop())
	}
	for _, m := range []string{"nodepool.yaml", "workload.yaml"} {
		if err := a.apply(ctx, m); err != nil {
			return errors.Join(err, s.Stop())
		}
	}
	console, err := consoleHint(ctx, s, bin)
	if err != nil {
		return errors.Join(err, s.Stop())
	}
	if err := os.WriteFile(filepath.Join(dir, "ready"), []byte(hints(s, bin)+console), 0o600); err != nil {
		return errors.Join(err, s.Stop())
	}
	<-ctx.Done()
	return s.Stop()
}

func hints(s *stack.Stack, bin string) string {
	flags := strings.Join(s.LogFlags(), " ")
	return fmt.Sprintf(`export KUBECONFIG=%s
kubectl scale deployment inflate --replicas=10
kubectl get nodepools,nodeclaims,nodes,pods
%s log --follow %s
%s why nodeclaim NAME %s
make down
`, s.Kubeconfig(), filepath.Join(bin, "millctl"), flags, filepath.Join(bin, "millctl"), flags)
}

// down ends what up started and waits for it.
func down(dir string) error {
	pid, ok := serving(dir)
	if !ok {
		return nil
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop process %d: %w", pid, err)
	}
	deadline := time.Now().Add(time.Minute)
	for {
		if _, ok := serving(dir); !ok {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("stop process %d: still running after a minute", pid)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// serving returns the process that serves dir, if it lives.
func serving(dir string) (int, bool) {
	b, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		return 0, false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || syscall.Kill(pid, 0) != nil {
		return 0, false
	}
	return pid, true
}
