package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// Packages whose benchmarks are run.
const (
	appendPackage = "store/etcdlog"
	busPackage    = "services/watcher"
	worldPackage  = "planner/world"
	planPackage   = "planner/provision"
)

// Aims.
const (
	appendsAim        = 700
	appendsManyAim    = 2000
	appendP99Aim      = 20.0
	observationsAim   = 30_000
	bytesPerPodAim    = 1024
	startupAimSeconds = 3.0
	driftAim          = 30 * time.Second
)

// measureAppends: records of 1 KiB that each expect and advance an aggregate.
func measureAppends(ctx context.Context, b *bench) ([]figure, error) {
	found, err := b.goBench(ctx, appendPackage, "^BenchmarkAppend$", "2s")
	rows := []struct {
		appenders, writers int
		aim                string
		meets              func(perSecond, p99 float64) bool
	}{
		{1, 1, "≥ 700/s", func(n, _ float64) bool { return n >= appendsAim }},
		{16, 1, "", nil},
		{256, 1, "", nil},
		{5, 5, "", nil},
		{16, 5, "", nil},
		{256, 5, "≥ 2,000/s, p99 ≤ 20 ms", func(n, p99 float64) bool { return n >= appendsManyAim && p99 <= appendP99Aim }},
	}
	var figures []figure
	for _, row := range rows {
		r, missing := found.findResult(fmt.Sprintf("Append/appenders=%d/writers=%d", row.appenders, row.writers))
		if missing != nil {
			return figures, errors.Join(err, missing)
		}
		perSecond, p99 := r.values["records/s"], r.values["p99-ms"]
		f := figure{
			name: fmt.Sprintf("log: append, %d at a time, %s", row.appenders, writers(row.writers)), aim: row.aim,
			measured: fmt.Sprintf("%s records/s, p50 %s, p99 %s", count(perSecond), millis(r.values["p50-ms"]), millis(p99)),
		}
		if row.meets != nil {
			f.verdict = verdictOf(row.meets(perSecond, p99))
		}
		figures = append(figures, f)
	}
	starts, startsErr := measureNodeStarts(ctx, b)
	return append(figures, starts...), errors.Join(err, startsErr)
}

// measureNodeStarts: 500 nodes start at once while provisioner and disruptor decide about their pool.
func measureNodeStarts(ctx context.Context, b *bench) ([]figure, error) {
	found, err := b.goBench(ctx, appendPackage, "^BenchmarkNodeStarts$", "3x")
	r, missing := found.findResult("NodeStarts")
	if missing != nil {
		return nil, errors.Join(err, missing)
	}
	lost := max(r.values["provisioner-lost-in-a-row"], r.values["disruptor-lost-in-a-row"])
	return []figure{{
		name: "log: 500 nodes start at once, provisioner and disruptor decide on their pool", aim: "nobody starves: ≤ 3 lost in a row",
		measured: fmt.Sprintf("%.1f s for 2,500 records; decision p99 %s and %s, at most %.0f lost in a row", r.values["s/500-starts"],
			millis(r.values["provisioner-p99-ms"]), millis(r.values["disruptor-p99-ms"]), lost),
		verdict: verdictOf(lost <= 3),
	}}, err
}

func writers(n int) string {
	if n == 1 {
		return "one writer"
	}
	return fmt.Sprintf("%d writers", n)
}

// measureBus: a pod encoded, published to NATS on disk, acknowledged, consumed, decoded and folded.
func measureBus(ctx context.Context, b *bench) ([]figure, error) {
	found, err := b.goBench(ctx, busPackage, "^BenchmarkPublishToFolded$", "3s")
	if err != nil {
		return nil, err
	}
	r, err := found.findResult("PublishToFolded")
	if err != nil {
		return nil, err
	}
	folded := figure{
		name: "bus: observations published → folded", aim: "≥ 30,000/s", verdict: verdictOf(r.values["obs/s"] >= observationsAim),
		measured: fmt.Sprintf("%s/s, %s bytes each", count(r.values["obs/s"]), count(r.values["B/obs"])),
	}
	drift, err := measureDrift(ctx, b)
	return []figure{folded, drift}, err
}

var driftFound = regexp.MustCompile(`found after (\S+)`)

// measureDrift: an observation that was not published, until the World gets it, on a virtual clock.
func measureDrift(ctx context.Context, b *bench) (figure, error) {
	out, err := b.goTest(ctx, busPackage, "-test.run=^TestAWorldThatDriftedIsFoundWithin30Seconds$", "-test.v")
	longest := time.Duration(0)
	for _, m := range driftFound.FindAllStringSubmatch(out, -1) {
		d, parseErr := time.ParseDuration(m[1])
		longest, err = max(longest, d), errors.Join(err, parseErr)
	}
	return figure{
		name: "recovery: World drift injected → found", aim: "≤ 30 s", measured: "at most " + longest.String(),
		verdict: verdictOf(longest > 0 && longest <= driftAim),
	}, err
}

var perPod = regexp.MustCompile(`(\d+) bytes of World per pod at (\d+) pods`)

func measureWorld(ctx context.Context, b *bench) ([]figure, error) {
	out, err := b.goTest(ctx, worldPackage, "-test.run=^TestWorldBytesPerPod$", "-test.v",
		"-test.bench=^(BenchmarkRestore|BenchmarkCheckpoint)1000Nodes20000Pods$", "-test.benchtime=1s")
	var figures []figure
	if m := perPod.FindStringSubmatch(out); m != nil {
		n, _ := strconv.Atoi(m[1])
		pods, _ := strconv.Atoi(m[2])
		figures = append(figures, figure{name: "world: memory per pod, " + count(float64(pods)) + " pods of 500 Deployments", aim: "≤ 1,024 bytes",
			measured: m[1] + " bytes", verdict: verdictOf(n <= bytesPerPodAim)})
	}
	found := parseBenchmarks(out)
	restore, err1 := found.findResult("Restore1000Nodes20000Pods")
	checkpoint, err2 := found.findResult("Checkpoint1000Nodes20000Pods")
	if err := errors.Join(err, err1, err2); err != nil {
		return figures, err
	}
	return append(figures, figure{
		name: "world: restore a checkpoint, 1,000 nodes and 20,000 pods",
		measured: fmt.Sprintf("%s; writing it %s, %s KiB", millis(restore.values["ns/op"]/1e6), millis(checkpoint.values["ns/op"]/1e6),
			count(checkpoint.values["bytes"]/1024)),
	}), nil
}

func measurePlans(ctx context.Context, b *bench) ([]figure, error) {
	found, err := b.goBench(ctx, planPackage, "^(BenchmarkPlain|BenchmarkDiverse|BenchmarkSingle|BenchmarkPreferences|BenchmarkRealistic)$", "300ms")
	if err != nil {
		return nil, err
	}
	var figures []figure
	for _, row := range []struct {
		benchmark, name string
		aim             float64 // milliseconds; 0: none
	}{
		{"Single", "plan: 1 pod, 2,000 nodes and 60,000 pods running", 5},
		{"Plain/1000", "plan: 1,000 plain pods, 400 instance types", 0},
		{"Plain/20000", "plan: 20,000 plain pods", 0},
		{"Diverse/1000", "plan: 1,000 pods, 4 of 5 with spread or affinity", 0},
		{"Diverse/5000", "plan: 5,000 pods, 4 of 5 with spread or affinity", 0},
		{"Diverse/20000", "plan: 20,000 pods, 4 of 5 with spread or affinity", 1000},
		{"Diverse/100000", "plan: 100,000 pods, 4 of 5 with spread or affinity", 0},
		{"Preferences", "plan: 4,000 pods with preferences that yield", 300},
		{"Realistic", "plan: 30,000 pods, 12 NodePools, 700 instance types, 1,000 nodes", 1000},
	} {
		r, err := found.findResult(row.benchmark)
		if err != nil {
			return figures, err
		}
		f := figure{name: row.name, measured: fmt.Sprintf("%s, %s KiB allocated", millis(r.values["ns/op"]/1e6), count(r.values["B/op"]/1024))}
		if row.aim > 0 {
			f.aim, f.verdict = "≤ "+millis(row.aim), verdictOf(r.values["ns/op"]/1e6 <= row.aim)
		}
		figures = append(figures, f)
	}
	return figures, nil
}
