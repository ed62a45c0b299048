//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	nodeName = "node-1"
	// address of the node, the API server and EC2. There is no other network in here, so it clashes with
	// none.
	address     = "10.231.0.2"
	podRange    = "10.244.0.0/24"
	serviceNet  = "10.100.0.0/16"
	dnsAddress  = "10.100.0.10"
	ec2Endpoint = "http://" + address + ":4566"
	volumes     = 7
)

// first is the first process of the namespaces. It prepares them, runs the test as its child, and collects
// the processes that lose their parents: shims of containerd do.
func first(_ context.Context, o *options) error {
	if os.Getpid() != 1 {
		return errors.New("only for the first process of new namespaces")
	}
	if err := prepare(o); err != nil {
		return err
	}
	cmd := exec.Command("/proc/self/exe", append([]string{"second"}, o.args()...)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the test: %w", err)
	}
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return fmt.Errorf("wait for the test: %w", err)
		case pid == cmd.Process.Pid && status.ExitStatus() == 0:
			return nil
		case pid == cmd.Process.Pid:
			return fmt.Errorf("%s failed", o.scenario)
		}
	}
}

// prepare gives the namespaces their network, and directories that are empty and seen in here only.
func prepare(o *options) error {
	mounts := []struct {
		source, target, kind string
		flags                uintptr
	}{
		{"", "/", "", syscall.MS_REC | syscall.MS_PRIVATE},
		{"", "/", "", syscall.MS_REC | syscall.MS_SHARED}, // a kubelet wants it, for volumes
		{"proc", "/proc", "proc", 0},
		{"tmpfs", "/run", "tmpfs", 0},
		{"tmpfs", "/var/lib", "tmpfs", 0},
		{"tmpfs", "/var/log", "tmpfs", 0},
	}
	for _, m := range mounts {
		if err := syscall.Mount(m.source, m.target, m.kind, m.flags, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	if _, err := os.Stat(filepath.Join(o.bin(), "kubelet")); err != nil {
		return fmt.Errorf("find bin/kubelet, in a repository outside of /run and /var: %w", err)
	}
	for _, dir := range []string{"/run/lock", o.state()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
	}
	return errors.Join(shadowSettings(), network())
}

// shadowSettings: what a kubelet sets in kernel and vm belongs to the whole machine. In here it finds the
// values it wants, and changes none.
func shadowSettings() error {
	for name, value := range map[string]string{
		"vm/overcommit_memory": "1", "vm/panic_on_oom": "0", "kernel/panic": "10", "kernel/panic_on_oops": "1",
		"kernel/keys/root_maxkeys": "1000000", "kernel/keys/root_maxbytes": "25000000",
	} {
		file := filepath.Join("/run", "setting-"+filepath.Base(name))
		if err := os.WriteFile(file, []byte(value+"\n"), 0o644); err != nil {
			return fmt.Errorf("write setting: %w", err)
		}
		if err := syscall.Mount(file, filepath.Join("/proc/sys", name), "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("shadow %s: %w", name, err)
		}
	}
	return nil
}

func network() error {
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
		return fmt.Errorf("forward packets: %w", err)
	}
	for _, args := range []string{
		"link set lo up",
		"address add " + address + "/32 dev lo",
		// kube-proxy changes the destination of what leaves for a Service; before, there must be a way to it.
		"route add " + serviceNet + " dev lo src " + address,
	} {
		if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", args, err, out)
		}
	}
	return nil
}

// second is the test's process.
func second(ctx context.Context, o *options) error {
	if err := os.Chdir(o.root); err != nil {
		return fmt.Errorf("enter the repository: %w", err)
	}
	run, ok := scenarios[o.scenario]
	if !ok {
		return fmt.Errorf("there is no scenario %q", o.scenario)
	}
	n := newNode(o)
	err := n.up(ctx)
	if err == nil {
		err = run(ctx, n)
	}
	if err != nil {
		n.explain(ctx)
	}
	return err
}
