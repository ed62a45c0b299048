package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"millwright/tools/stack"
)

const (
	// runTimeout ends a demo that hangs; it usually takes a minute.
	runTimeout = 5 * time.Minute
	stepLimit  = 90 * time.Second
)

// demo is one run.
type demo struct {
	ui      *ui
	bin     string
	stack   *stack.Stack
	kube    kubernetes.Interface
	applier *applier
	watch   *watcher
	records *records
}

func run(ctx context.Context, dir, bin string) (err error) {
	unbounded := ctx
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	d := &demo{ui: newUI(os.Stdout), bin: bin}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("clear %s: %w", dir, err)
	}
	d.ui.title("Millwright: nodes for pods, every decision on record")
	if err := d.begin(ctx, dir); err != nil {
		return err
	}
	defer func() {
		d.ui.title("Stopping what was started")
		err = errors.Join(err, d.end())
		if err == nil {
			d.ui.line(green, "done", "logs and data are in %s", dir)
		}
	}()
	for _, step := range []func(context.Context) error{d.scaleUp, d.neverFits, d.consolidate, d.scaleToZero, d.why, d.replay} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	d.summary(ctx)
	return d.keep(unbounded)
}

// begin starts the stack and what watches it.
func (d *demo) begin(ctx context.Context, dir string) (err error) {
	d.stack, err = stack.Start(ctx, stack.Options{
		Dir: dir, BinDir: d.bin, MillwrightArgs: []string{"--log-level", "info"},
		EC2SimArgs: []string{"--boot-delay", "1s"},
		Progress:   func(what string) { d.ui.line(dim, "start", "%s", what) },
	})
	if err != nil {
		return err
	}
	if d.kube, err = kubernetes.NewForConfig(d.stack.Config()); err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	if d.applier, err = newApplier(d.stack.Config()); err != nil {
		return err
	}
	if d.watch, err = startWatcher(ctx, d.stack.Config(), d.ui); err != nil {
		return err
	}
	d.records, err = followRecords(ctx, d.millctl("log", "--follow", "-o", "json"), d.ui)
	return err
}

func (d *demo) end() error {
	if d.records != nil {
		d.records.stop()
	}
	if d.watch != nil {
		d.watch.stop()
	}
	return d.stack.Stop()
}

func (d *demo) millctl(args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(d.bin, "millctl"), append(args, d.stack.LogFlags()...)...)
	cmd.Stderr = os.Stderr
	return cmd
}

// show runs millctl and prints what it says.
func (d *demo) show(args ...string) error {
	d.ui.line(bold, "$", "millctl %s", strings.Join(args, " "))
	out, err := d.millctl(args...).Output()
	d.ui.block(string(out))
	if err != nil {
		return fmt.Errorf("millctl %s: %w", args[0], err)
	}
	return nil
}

func (d *demo) scaleUp(ctx context.Context) error {
	d.ui.title("1. Pods without nodes")
	for _, m := range []string{"nodepool.yaml", "workload.yaml"} {
		if err := d.applier.apply(ctx, m); err != nil {
			return err
		}
	}
	d.ui.line(plain, "kubectl", "apply NodePool default, EC2NodeClass default, Deployments inflate, cache and web")
	if err := d.until(ctx, "NodePool default to be ready", func() bool { return d.applier.ready(ctx, "nodepools", "default") }); err != nil {
		return err
	}
	d.ui.line(green, "ready", "NodePool default and EC2NodeClass default")
	if err := d.scale(ctx, "inflate", 3); err != nil {
		return err
	}
	if err := d.allRunning(ctx, 3); err != nil {
		return err
	}
	d.ui.title("2. More pods, of other shapes: memory for cache, a zone each for web")
	if err := errors.Join(d.scale(ctx, "inflate", 12), d.scale(ctx, "cache", 4), d.scale(ctx, "web", 4)); err != nil {
		return err
	}
	return d.allRunning(ctx, 20)
}

func (d *demo) neverFits(ctx context.Context) error {
	d.ui.title("3. A pod that no instance type can run")
	if err := d.applier.apply(ctx, "giant.yaml"); err != nil {
		return err
	}
	d.ui.line(plain, "kubectl", "apply Pod giant, which asks for 5000 CPUs")
	if err := d.until(ctx, "a verdict on pod giant", func() bool { return d.records.refused("default", "giant") }); err != nil {
		return err
	}
	if err := d.show("why", "pod", "default/giant"); err != nil {
		return err
	}
	return d.kube.CoreV1().Pods("default").Delete(ctx, "giant", metav1.DeleteOptions{GracePeriodSeconds: ptr(int64(0))})
}

// consolidate leaves few pods on nodes that have become too many and too large: they move together. It waits
// until those nodes are gone, or nothing has happened for a while because no move would pay.
func (d *demo) consolidate(ctx context.Context) error {
	d.ui.title("4. Fewer pods: those that are left move together")
	before := d.records.priceNow()
	if err := errors.Join(d.scale(ctx, "inflate", 2), d.scale(ctx, "cache", 1)); err != nil {
		return err
	}
	if err := d.until(ctx, "nodes to be consolidated", func() bool { return d.records.consolidated() && d.watch.running() == 7 }); err != nil {
		return err
	}
	after := d.records.priceNow()
	d.records.saved = fmt.Sprintf("%s instead of %s, %d pods moved", dollars(after), dollars(before), d.records.movedPods())
	d.ui.line(green, "saved", "%s: %s", dollars(before-after), d.records.saved)
	return nil
}

func (d *demo) scaleToZero(ctx context.Context) error {
	d.ui.title("5. Scale to zero")
	if err := errors.Join(d.scale(ctx, "inflate", 0), d.scale(ctx, "cache", 0), d.scale(ctx, "web", 0)); err != nil {
		return err
	}
	return d.until(ctx, "all nodes gone and all instances terminated", func() bool {
		return d.watch.nodeCount() == 0 && d.watch.claimCount() == 0 && d.records.openClaims() == 0
	})
}

func (d *demo) why(context.Context) error {
	d.ui.title("6. Why was this node made, and why did it go?")
	return d.show("why", "nodeclaim", d.records.consolidatedClaim())
}

func (d *demo) replay(context.Context) error {
	d.ui.title("7. Every decision again, from the record")
	return errors.Join(d.show("replay"), d.show("verify"))
}

func (d *demo) scale(ctx context.Context, deployment string, replicas int32) error {
	d.ui.line(plain, "kubectl", "scale deployment %s --replicas=%d", deployment, replicas)
	_, err := d.kube.AppsV1().Deployments("default").UpdateScale(ctx, deployment, &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: deployment, Namespace: "default"},
		Spec:       autoscalingv1.ScaleSpec{Replicas: replicas},
	}, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("scale deployment %s: %w", deployment, err)
	}
	return nil
}

func (d *demo) allRunning(ctx context.Context, want int) error {
	err := d.until(ctx, fmt.Sprintf("%d pods running", want), func() bool { return d.watch.running() == want })
	if err == nil {
		d.ui.line(green, "running", "all %d pods, on %d nodes", want, d.watch.nodeCount())
	}
	return err
}

// until polls a condition of the things watched; it says what it waited for if that does not come.
func (d *demo) until(ctx context.Context, what string, met func() bool) error {
	deadline := time.Now().Add(stepLimit)
	for !met() {
		if time.Now().After(deadline) {
			return fmt.Errorf("wait for %s: not within %s\n%s", what, stepLimit, d.watch.describe())
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}
