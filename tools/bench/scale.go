package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

const (
	scalePackage     = "services/internal/scale"
	lifecyclePackage = "services/lifecycle"
	watchedPackage   = "services/watcher/kube"
	eventAimMicros   = 1000.0
	restAimPercent   = 2.0
)

// measureScale: what services cost in a settled cluster of 5,000 nodes and 150,000 pods.
func measureScale(ctx context.Context, b *bench) ([]figure, error) {
	steps, err1 := b.goBench(ctx, scalePackage, "^BenchmarkStep$", "200x")
	rest, err2 := b.goBench(ctx, scalePackage, "^BenchmarkRest$", "1x")
	whole, err3 := b.goBench(ctx, scalePackage, "^BenchmarkPlan$", "5x")
	folds, err6 := b.goBench(ctx, scalePackage, "^BenchmarkFold$", "2000x")
	reads, err4 := b.goBench(ctx, scalePackage, "^BenchmarkLedgerRead$", "5000x")
	var figures []figure
	row := func(found results, benchmark, unit, name, format string, aim float64) {
		r, err := found.findResult(benchmark)
		if err != nil {
			err4 = errors.Join(err4, err)
			return
		}
		f := figure{name: "scale: " + name, measured: fmt.Sprintf(format, r.values[unit])}
		if aim > 0 {
			f.aim, f.verdict = "≤ "+fmt.Sprintf(format, aim), verdictOf(r.values[unit] <= aim)
		}
		figures = append(figures, f)
	}
	for _, kind := range []struct{ name, text string }{{"status", "of a pod's status"}, {"replaced", "of a pod that comes or goes"}} {
		row(folds, "Fold/"+kind.name, "µs-cpu/event", "publish, decode and fold an event "+kind.text, "%.0f µs", eventAimMicros)
		for _, service := range []string{"provisioner", "disruptor", "terminator", "lifecycle"} {
			row(steps, "Step/"+service+"/"+kind.name, "µs-cpu/event", service+", per event "+kind.text, "%.0f µs", eventAimMicros)
		}
	}
	for _, service := range []string{"none", "provisioner", "disruptor", "terminator", "lifecycle"} {
		name := service
		if service == "none" {
			name = "fold alone"
		}
		row(rest, "Rest/"+service+"/0", "%core", "at rest, "+name+", of a core", "%.1f %%", restAimPercent)
		row(rest, "Rest/"+service+"/20", "%core", "20 pod events a second, "+name+", of a core", "%.1f %%", 0)
	}
	for _, x := range []struct{ benchmark, text string }{
		{"provision", "a round without pods"}, {"prompt", "a look for empty and drifted nodes"}, {"disrupt", "a search for consolidation in vain"},
		{"nodes", "the nodes of a Snapshot"}, {"sums", "the sums of all objects, every 10 s"},
	} {
		row(whole, "Plan/"+x.benchmark, "cpu-ms", x.text, "%.0f ms CPU", 0)
	}
	row(reads, "LedgerRead", "p99-µs", "a read of Ledger and Snapshot beside a plan, p99", "%.0f µs", eventAimMicros)
	held, err7 := measureCheckpoints(ctx, b)
	scrapes, err8 := measureScrapes(ctx, b)
	more, err5 := measureOthers(ctx, b)
	return slices.Concat(figures, held, scrapes, more), errors.Join(err1, err2, err3, err4, err5, err6, err7, err8)
}

// measureScrapes: what Prometheus gets of the provisioner that leads, without and with a series for each pod.
func measureScrapes(ctx context.Context, b *bench) ([]figure, error) {
	found, err := b.goBench(ctx, scalePackage, "^BenchmarkScrape$", "5x")
	var figures []figure
	for _, x := range []struct{ benchmark, text string }{{"nodes", "a scrape of the provisioner"}, {"pods", "the same with --pod-metrics"}} {
		r, missing := found.findResult("Scrape/" + x.benchmark)
		if missing != nil {
			err = errors.Join(err, missing)
			continue
		}
		figures = append(figures, figure{name: "scale: " + x.text, measured: fmt.Sprintf("%s series, %.1f MiB (%.1f MiB compressed), %.0f ms CPU",
			count(r.values["series"]), r.values["MiB"], r.values["sent-MiB"], r.values["cpu-ms"])})
	}
	return figures, err
}

// measureCheckpoints: what Ledger and World take in memory and as checkpoints, and whether anything waits for
// one to be written.
func measureCheckpoints(ctx context.Context, b *bench) ([]figure, error) {
	sizes, err := b.goBench(ctx, scalePackage, "^BenchmarkCheckpoint$", "3x")
	pauses, err1 := b.goBench(ctx, scalePackage, "^BenchmarkPause$", "1000x")
	ledger, err2 := sizes.findResult("Checkpoint/ledger")
	world, err3 := sizes.findResult("Checkpoint/world")
	alone, err4 := pauses.findResult("Pause/alone")
	beside, err5 := pauses.findResult("Pause/beside")
	if err := errors.Join(err, err1, err2, err3, err4, err5); err != nil {
		return nil, err
	}
	figures := []figure{
		{name: "scale: Ledger of 5,000 claims planned with 600 types each", aim: "≤ 20 MiB, checkpoint ≤ 10 MiB",
			measured: fmt.Sprintf("%.1f MiB, checkpoint %.1f MiB in %.0f ms of CPU", ledger.values["heap-MiB"], ledger.values["stored-MiB"], ledger.values["cpu-ms"]),
			verdict:  verdictOf(ledger.values["heap-MiB"] <= 20 && ledger.values["stored-MiB"] <= 10)},
		{name: "scale: World", measured: fmt.Sprintf("%.0f MiB, checkpoint %.1f MiB in %.0f ms of CPU", world.values["heap-MiB"], world.values["stored-MiB"], world.values["cpu-ms"])},
	}
	for _, x := range []struct{ unit, text string }{{"fold", "fold of an event"}, {"read", "read of Ledger and Snapshot"}, {"plan", "look for empty and drifted nodes"}} {
		figures = append(figures, figure{name: "scale: " + x.text + ", longest while checkpoints are written", measured: fmt.Sprintf("%s (p50 %s); without %s (p50 %s)",
			millis(beside.values[x.unit+"-max-ms"]), millis(beside.values[x.unit+"-p50-ms"]), millis(alone.values[x.unit+"-max-ms"]), millis(alone.values[x.unit+"-p50-ms"]))})
	}
	return figures, nil
}

// measureOthers: lifecycle's step and the watcher's own work.
func measureOthers(ctx context.Context, b *bench) ([]figure, error) {
	var figures []figure
	var errs []error
	for _, x := range []struct {
		pkg, pattern, times string
		rows                [][2]string
	}{
		{lifecyclePackage, "^BenchmarkStep$", "200x", [][2]string{{"Step/pod_event", "lifecycle, 1,000 claims, per pod event"},
			{"Step/Node", "lifecycle, 1,000 claims, per change of a Node"}, {"Step/record", "lifecycle, 1,000 claims, per two records"}}},
		{watchedPackage, "^BenchmarkWatchedPod$", "5000x", [][2]string{{"WatchedPod/published", "watcher, per pod event that is published"},
			{"WatchedPod/status", "watcher, per pod event that says nothing new"}}},
	} {
		found, err := b.goBench(ctx, x.pkg, x.pattern, x.times)
		for _, row := range x.rows {
			r, missing := found.findResult(row[0])
			if missing != nil {
				err = errors.Join(err, missing)
				continue
			}
			micros := r.values["ns/op"] / 1000
			figures = append(figures, figure{name: "scale: " + row[1], aim: "≤ 1,000 µs", measured: fmt.Sprintf("%.1f µs", micros), verdict: verdictOf(micros <= eventAimMicros)})
		}
		errs = append(errs, err)
	}
	return figures, errors.Join(errs...)
}

// measureCandidates: disruption asks for every node what becomes of its pods if the node goes.
func measureCandidates(ctx context.Context, b *bench) ([]figure, error) {
	found, err := b.goBench(ctx, planPackage, "^BenchmarkSimulation$/^(1000|5000)$", "1x")
	if err != nil {
		return nil, err
	}
	var figures []figure
	for _, nodes := range []int{1000, 5000} {
		r, err := found.findResult(fmt.Sprintf("Simulation/%d", nodes))
		if err != nil {
			return figures, err
		}
		figures = append(figures, figure{name: fmt.Sprintf("disrupt: simulate each of %s nodes away", count(float64(nodes))),
			measured: fmt.Sprintf("%.0f µs per candidate, %s in all", r.values["µs/candidate"], millis(r.values["ns/op"]/1e6))})
	}
	return figures, nil
}
