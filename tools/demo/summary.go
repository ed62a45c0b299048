package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// summary prints the main figures of the run.
func (d *demo) summary(ctx context.Context) {
	d.ui.title("Summary")
	d.watch.mu.Lock()
	waits, nodes := slices.Clone(d.watch.podWaits), len(d.watch.nodesSeen)
	d.watch.mu.Unlock()
	d.records.mu.Lock()
	defer d.records.mu.Unlock()
	r := d.records
	types := map[string]bool{}
	for _, l := range r.launched {
		types[l.InstanceType] = true
	}
	row := func(name, format string, args ...any) {
		d.ui.block(fmt.Sprintf("%-26s %s", name, fmt.Sprintf(format, args...)))
	}
	row("pods that got a node", "%d", len(waits))
	row("nodes", "%d made and taken away, of %d instance types, one launch each", nodes, len(types))
	row("price at the peak", "%s", dollars(r.peak))
	row("consolidation", "%s", r.saved)
	row("records in the log", "%d", r.count)
	var asked, launched, booted []time.Duration
	for _, c := range r.claims {
		asked = appendSpan(asked, c.created, c.requested)
		launched = appendSpan(launched, c.requested, c.launched)
		booted = appendSpan(booted, c.launched, c.initialized)
	}
	row("NodeClaim to CreateFleet", "%s", spread(asked))
	row("CreateFleet to instance", "%s", spread(launched))
	row("instance to ready node", "%s (the simulator's boot delay is in here)", spread(booted))
	row("pod pending to running", "%s", spread(waits))
	if rss := residentMemory(d.stack.Process("millwright").Pid()); rss != "" {
		row("memory of millwright all", "%s", rss)
	}
}

func appendSpan(spans []time.Duration, from, to time.Time) []time.Duration {
	if from.IsZero() || to.IsZero() {
		return spans
	}
	return append(spans, to.Sub(from))
}

// spread gives median and maximum.
func spread(d []time.Duration) string {
	if len(d) == 0 {
		return "–"
	}
	slices.Sort(d)
	return fmt.Sprintf("%s median, %s longest", short(d[len(d)/2]), short(d[len(d)-1]))
}

func short(d time.Duration) string {
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(10 * time.Millisecond).String()
}
