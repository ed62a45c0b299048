//go:build linux

// Command nodetest installs the charts on a real node, with Helm, as their users do: a kubelet, kube-proxy
// and containerd beside the local control plane and its simulated nodes and account, in namespaces of their
// own.
//
//	nodetest upgrades   mode distributed with its own etcd and NATS, under load: upgrade to another build,
//	                    restart of everything, loss and eviction of every pod, removal
//	nodetest install    the way of docs/install.md, mode embedded: from nothing to the first node, and removal
//
// All processes live in PID, mount, network and IPC namespaces that end with this process, however it ends.
// Of cgroups, which have no such namespace, what is left behind by a killed run is removed by the next.
//
// What it needs of the machine, `nodetest check` says.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"millwright/tools/child"
)

// options of a run.
type options struct {
	root, scenario, cgroup string
	keep, policies         bool
	timeout                time.Duration
}

// args of this program that repeat the options.
func (o *options) args() []string {
	return []string{o.scenario, "--root", o.root, "--cgroup", o.cgroup, "--policies=" + strconv.FormatBool(o.policies)}
}

func (o *options) state() string { return filepath.Join(o.root, ".local", "nodetest-"+o.scenario) }
func (o *options) bin() string   { return filepath.Join(o.root, "bin") }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "nodetest:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	o := &options{}
	root := &cobra.Command{Use: "nodetest", Short: "Install the charts on a real node", SilenceUsage: true, SilenceErrors: true}
	root.PersistentFlags().StringVar(&o.root, "root", ".", "directory of the repository, with bin/ built")
	root.PersistentFlags().DurationVar(&o.timeout, "timeout", 28*time.Minute, "give up after this long")
	root.PersistentFlags().BoolVar(&o.keep, "keep", false, "keep data and logs in .local/nodetest-*")
	root.PersistentFlags().BoolVar(&o.policies, "policies", false, "enforce NetworkPolicies, by kube-router in bin/, and install those of the chart")
	root.PersistentFlags().StringVar(&o.cgroup, "cgroup", "", "")
	_ = root.PersistentFlags().MarkHidden("cgroup")
	for name := range scenarios {
		root.AddCommand(&cobra.Command{Use: name, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
			o.scenario = name
			return outside(cmd.Context(), o)
		}})
	}
	root.AddCommand(&cobra.Command{Use: "check", Short: "Say what this machine lacks for a real node; fails if it does", Args: cobra.NoArgs,
		Run: func(*cobra.Command, []string) {
			if lacks := o.missing(); lacks != "" {
				fmt.Println(lacks)
				os.Exit(1)
			}
		}})
	root.AddCommand(&cobra.Command{Use: dialCommand + " ADDRESS...", Hidden: true, Run: func(_ *cobra.Command, addresses []string) { dial(addresses) }})
	for name, run := range map[string]func(context.Context, *options) error{"first": first, "second": second} {
		root.AddCommand(&cobra.Command{Use: name + " SCENARIO", Hidden: true, Args: cobra.ExactArgs(1), RunE: func(cmd *cobra.Command, args []string) error {
			o.scenario = args[0]
			return run(cmd.Context(), o)
		}})
	}
	return root
}

// outside is the process that the user started: it starts one in new namespaces and removes what is left.
func outside(ctx context.Context, o *options) (err error) {
	if o.root, err = filepath.Abs(o.root); err != nil {
		return fmt.Errorf("find the repository: %w", err)
	}
	if missing := o.missing(); missing != "" {
		return errors.New(missing)
	}
	unlock, err := lock(o)
	if err != nil {
		return err
	}
	defer unlock()
	o.cgroup = cgroupOf(os.Getpid())
	if err := errors.Join(sweepCgroups(), makeCgroups(o.cgroup)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sweepState(o, err != nil), removeCgroups(o.cgroup)) }()
	if err := sweepState(o, false); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	cmd := isolated(append([]string{"first"}, o.args()...)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	ended, err := child.Start(cmd)
	if err != nil {
		return fmt.Errorf("start in new namespaces: %w", err)
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		_ = cmd.Process.Kill()
		<-ended
		return context.Cause(ctx)
	}
}

// isolated is this program in new namespaces, whose processes all end when it does.
func isolated(args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC}
	return cmd
}

// missing says what this machine lacks for a real node; "" if nothing.
func (o *options) missing() string {
	if os.Geteuid() != 0 {
		return "it needs root, for namespaces and containerd"
	}
	programs := []string{"containerd", "ctr", "runc", "ip", "nft"}
	if o.policies {
		programs = append(programs, "iptables", "ipset", "nsenter")
	}
	for _, name := range programs {
		if _, err := exec.LookPath(name); err != nil {
			return name + " is not installed"
		}
	}
	if _, err := os.Stat(filepath.Join(cgroups, "cpuset", "cpuset.cpus")); err != nil {
		return "there are no cgroups of version 1 at " + cgroups
	}
	if err := isolated("--help").Run(); err != nil {
		return "namespaces cannot be made: " + err.Error()
	}
	return ""
}

// lock keeps a second run out of the same directory.
func lock(o *options) (func(), error) {
	if err := os.MkdirAll(filepath.Dir(o.state()), 0o755); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	f, err := os.OpenFile(o.state()+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, fmt.Errorf("another run holds %s: %w", f.Name(), err)
	}
	return func() { _ = f.Close() }, nil
}

// sweepState removes data and logs of an earlier run, or of this one unless they are to be looked at. Images
// and volumes, which are large, always go.
func sweepState(o *options, failed bool) error {
	if o.keep {
		return nil
	}
	dirs := []string{o.state()}
	if failed {
		dirs = []string{filepath.Join(o.state(), "containerd"), filepath.Join(o.state(), "volumes"), filepath.Join(o.state(), "images")}
		fmt.Println("logs are in", o.state())
	}
	for _, dir := range dirs {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove %s: %w", dir, err)
		}
	}
	return nil
}

const (
	cgroups      = "/sys/fs/cgroup"
	cgroupPrefix = "millwright-node-"
	// podShares of CPU: a cgroup counts as one process beside it, which has 1024, but there are some thirty
	// in the pods.
	podShares = 8 * 1024
	// busyTries at intervals of busyPause: a cgroup is busy until the kernel has buried its last process.
	busyTries = 50
	busyPause = 200 * time.Millisecond
)

// cgroupOf a run is below the CPU cgroup of this process, whose limits hold for the pods too.
func cgroupOf(pid int) string {
	parent := "/"
	own, _ := os.ReadFile("/proc/self/cgroup")
	for _, line := range strings.Split(string(own), "\n") {
		if parts := strings.SplitN(line, ":", 3); len(parts) == 3 && parts[1] == "cpu" || len(parts) == 3 && strings.HasPrefix(parts[1], "cpu,") {
			parent = parts[2]
		}
	}
	return filepath.Join(parent, cgroupPrefix+strconv.Itoa(pid))
}

// hierarchies that have processes and subgroups.
func hierarchies() ([]string, error) {
	found, err := filepath.Glob(filepath.Join(cgroups, "*", "cgroup.procs"))
	for i := range found {
		found[i] = filepath.Dir(found[i])
	}
	return found, err
}

// makeCgroups makes the cgroup in every hierarchy; a kubelet makes those below it.
func makeCgroups(name string) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	for _, h := range all {
		dir := h
		for _, part := range strings.Split(strings.Trim(name, "/"), "/") {
			parent := dir
			dir = filepath.Join(dir, part)
			if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
				return fmt.Errorf("make cgroup: %w", err)
			}
			// No process may enter a cpuset that names no CPU.
			for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
				inherit(filepath.Join(parent, file), filepath.Join(dir, file))
			}
		}
		shares := filepath.Join(dir, "cpu.shares")
		if _, err := os.Stat(shares); err != nil {
			continue
		}
		if err := os.WriteFile(shares, []byte(strconv.Itoa(podShares)), 0o644); err != nil {
			return fmt.Errorf("set shares of cgroup: %w", err)
		}
	}
	return nil
}

// inherit fills an empty setting with that of the parent; elsewhere than in a cpuset there is none.
func inherit(from, to string) {
	if now, err := os.ReadFile(to); err != nil || strings.TrimSpace(string(now)) != "" {
		return
	}
	if value, err := os.ReadFile(from); err == nil {
		_ = os.WriteFile(to, value, 0o644)
	}
}

// sweepCgroups removes those of runs that were killed.
func sweepCgroups() error {
	parent := filepath.Dir(cgroupOf(0))
	found, err := filepath.Glob(filepath.Join(cgroups, "*", parent, cgroupPrefix+"*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, dir := range found {
		pid, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), cgroupPrefix))
		if err != nil || syscall.Kill(pid, 0) == nil {
			continue
		}
		errs = append(errs, removeCgroups(filepath.Join(parent, filepath.Base(dir))))
	}
	return errors.Join(errs...)
}

// removeCgroups removes the cgroup from every hierarchy, and its parents where nobody else uses them.
func removeCgroups(name string) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	var errs []error
	for _, h := range all {
		errs = append(errs, removeTree(filepath.Join(h, name)))
		for dir := filepath.Dir(name); dir != "/"; dir = filepath.Dir(dir) {
			_ = os.Remove(filepath.Join(h, dir)) // refused if it has processes or subgroups
		}
	}
	return errors.Join(errs...)
}

func removeTree(dir string) error {
	children, err := filepath.Glob(filepath.Join(dir, "*", "cgroup.procs"))
	if err != nil {
		return err
	}
	for _, c := range children {
		if err := removeTree(filepath.Dir(c)); err != nil {
			return err
		}
	}
	for try := 0; ; try++ {
		err := syscall.Rmdir(dir)
		if err == nil || errors.Is(err, syscall.ENOENT) {
			return nil
		}
		if try == busyTries {
			return fmt.Errorf("remove cgroup %s: %w", dir, err)
		}
		time.Sleep(busyPause)
	}
}
