package e2e

import (
	"bytes"
	"encoding/json"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"millwright/tools/clustertest"
)

// dataless are queries of panels that have no data in the run that is observed, each with the reason. One
// that has data after all is to be taken off the list.
var dataless = map[string]string{
	"disruption, Balanced NodePools A":                         "no NodePool is Balanced",
	"disruption, Draining out A":                               "no DisruptionPolicy has drainOut",
	"disruption, Evaluation B":                                 "no search needs all of its steps",
	"disruption, Halted A":                                     "no DisruptionPolicy has waves",
	"lifecycle-and-ec2, Delay A":                               noQueue,
	"lifecycle-and-ec2, Delay B":                               noQueue,
	"lifecycle-and-ec2, Failed offerings A":                    "the simulated account has capacity for everything",
	"lifecycle-and-ec2, Messages A":                            noQueue,
	"lifecycle-and-ec2, Orphans, alarms and unhealthy nodes B": "nothing looks like a mistake",
	"lifecycle-and-ec2, Orphans, alarms and unhealthy nodes C": "no node is unhealthy",
	"log-and-stream, World repaired A":                         "the stream loses nothing",
	"log-and-stream, World repaired B":                         "every message can be read",
	"nodes-and-cost, CPU C":                                    noDaemons,
	"nodes-and-cost, Memory C":                                 noDaemons,
}

const (
	noQueue   = "no interruption queue is set"
	noDaemons = "there are no DaemonSets"
)

// byChance are queries that have data in some runs and not in others.
var byChance = map[string]string{
	"disruption, Failed commands A":       "a pod may come while a command is confirmed",
	"disruption, Failed commands B":       "a replacement may be late on a slow machine",
	"log-and-stream, Snapshots refused A": startUp,
	"log-and-stream, Snapshots refused B": startUp,
	"log-and-stream, Snapshots refused C": startUp,
	"log-and-stream, Snapshots refused D": startUp,
	"provisioning, Placement hints A":     "kube-scheduler may be faster than any hint",
}

const startUp = "a service may lead before the first resync has ended"

// observe has Prometheus scrape the stack until the function that it returns is called, which demands that
// every query of the dashboards has had data by then, except dataless and byChance, and that every rule can
// be evaluated.
func (e *env) observe() (ended func()) {
	e.Helper()
	program := filepath.Join(clustertest.Root(), "bin/observe")
	build := exec.CommandContext(e.Context(), "go", "build", "-o", program, "./observe")
	build.Dir = filepath.Join(clustertest.Root(), "tools/gen/rules") // a module of its own, for Prometheus
	if out, err := build.CombinedOutput(); err != nil {
		e.Fatalf("build observe: %v: %s", err, out)
	}
	args := []string{"--root", clustertest.Root()}
	for name, address := range e.stack.MetricsAddresses() {
		args = append(args, "--target", name+"="+address)
	}
	var out, problems bytes.Buffer
	cmd := exec.CommandContext(e.Context(), program, args...)
	cmd.Stdout, cmd.Stderr = &out, &problems
	end, err := cmd.StdinPipe()
	if err != nil {
		e.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		e.Fatal(err)
	}
	return func() {
		e.Helper()
		_ = end.Close()
		if err := cmd.Wait(); err != nil {
			e.Fatalf("%v: %s", err, problems.Bytes())
		}
		var found struct {
			Samples map[string]int
			Rules   int
			Errors  []string
		}
		if err := json.Unmarshal(out.Bytes(), &found); err != nil {
			e.Fatal(err)
		}
		checkObserved(e.T, found.Samples, found.Rules, found.Errors)
	}
}

func checkObserved(t *testing.T, samples map[string]int, rules int, problems []string) {
	t.Helper()
	for _, p := range problems {
		t.Error(p)
	}
	if len(samples) < 100 || rules < 30 {
		t.Errorf("%d queries and %d rules were evaluated", len(samples), rules)
	}
	for where, n := range samples {
		switch reason := dataless[where]; {
		case byChance[where] != "":
		case n == 0 && reason == "":
			t.Errorf("the dashboards' query %q never had data", where)
		case n > 0 && reason != "":
			t.Errorf("the dashboards' query %q had data: take it off the list (%s)", where, reason)
		}
	}
	for _, where := range slices.Concat(slices.Collect(maps.Keys(dataless)), slices.Collect(maps.Keys(byChance))) {
		if _, there := samples[where]; !there {
			t.Errorf("there is no query %q: take it off the list", where)
		}
	}
}
