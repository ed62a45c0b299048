package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"millwright/tools/workload"
)

// offlineRun is a problem for `millctl plan`, with the most CPU time its planning may take and memory the
// process.
type offlineRun struct {
	name      string
	make      func() *workload.Problem
	planMax   time.Duration
	memoryMax int64
}

var offlineRuns = []offlineRun{
	{"diverse, 1,000 pods", func() *workload.Problem { return workload.Diverse(1000) }, 0, 0},
	{"diverse, 5,000 pods", func() *workload.Problem { return workload.Diverse(5000) }, 0, 0},
	{"diverse, 20,000 pods", func() *workload.Problem { return workload.Diverse(20000) }, time.Second, 200 << 20},
	{"preferences, 4,000 pods", func() *workload.Problem { return workload.Preferences(4000) }, 300 * time.Millisecond, 0},
	{"realistic, 30,000 pods", func() *workload.Problem { return workload.Realistic(30000) }, time.Second, 0},
	{"single pod, 2,000 nodes, 60,000 pods running", workload.Single, 5 * time.Millisecond, 0},
	{"diverse, 100,000 pods", func() *workload.Problem { return workload.Diverse(100000) }, 0, 1 << 30},
}

// measureOffline runs `millctl plan --offline` on each problem, on one CPU: the time it says planning took,
// and CPU time and memory of the whole process, reading included.
func measureOffline(ctx context.Context, b *bench) ([]figure, error) {
	var figures []figure
	for _, r := range offlineRuns {
		f, err := b.offline(ctx, r)
		if err != nil {
			return figures, fmt.Errorf("%s: %w", r.name, err)
		}
		figures = append(figures, f)
	}
	return figures, nil
}

func (b *bench) offline(ctx context.Context, r offlineRun) (figure, error) {
	dir := filepath.Join(b.dir, "offline")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return figure{}, err
	}
	defer os.RemoveAll(dir)
	files, err := r.make().Write(dir, true)
	if err != nil {
		return figure{}, err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(b.bin, "millctl"), "plan", "--offline", "-f", files.Objects, "--catalog", files.Catalogue, "-o", "json")
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 2) {
		return figure{}, fmt.Errorf("millctl plan: %w: %s", err, stderr.String())
	}
	var report struct {
		Stats struct{ Pods, PlanMillis int64 }
	}
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		return figure{}, fmt.Errorf("read the plan: %w", err)
	}
	usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	memory := usage.Maxrss << 10
	took := time.Duration(report.Stats.PlanMillis) * time.Millisecond
	return r.figure(took, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime(), memory), nil
}

func (r *offlineRun) figure(plan, cpu time.Duration, memory int64) figure {
	f := figure{name: "millctl plan: " + r.name, measured: fmt.Sprintf("%s; whole process %s of CPU, %s", duration(plan), duration(cpu), mebibytes(memory))}
	ok := true
	if r.planMax > 0 {
		f.aim, ok = "≤ "+duration(r.planMax), plan <= r.planMax
	}
	if r.memoryMax > 0 {
		if f.aim != "" {
			f.aim += ", "
		}
		f.aim += "≤ " + mebibytes(r.memoryMax)
		ok = ok && memory <= r.memoryMax
	}
	if f.aim != "" {
		f.verdict = verdictOf(ok)
	}
	return f
}
