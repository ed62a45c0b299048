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
	"disruption, Draining out A":                               "no DisruptionPolicy has drainOut",
	"disruption, Halted A":                                     "no DisruptionPolicy has waves",
	"lifecycle-and-ec2, Delay A":                               noQueue,
	"lifecycle-and-ec2, Delay B":                               noQueue,
	"lifecycle-and-ec2, Failed offerings A":                    allThere,
	"lifecycle-and-ec2, Messages A":                            noQueue,
	"lifecycle-and-ec2, Orphans, alarms and unhealthy nodes C": "no node is unhealthy",
	"nodes-and-cost, CPU C":                                    noDaemons,
	"nodes-and-cost, Memory C":                                 noDaemons,
}

const (
	allThere  = "the simulated account has capacity for everything"
	noQueue   = "no interruption queue is set"
	noSink    = "nothing is exported"
	noDaemons = "there are no DaemonSets"
)

// absent are selectors of the rules that select nothing in the run that is observed, each with the reason.
var absent = map[string]string{
	`karpenter_cloudprovider_instance_launch_failures_total`:                                                                       allThere,
	`millwright:launch_failures:rate15m{reason!~"InsufficientInstanceCapacity|UnfulfillableCapacity|ReservationCapacityExceeded"}`: allThere,
	`millwright:launch_failures:rate15m{reason=~"InsufficientInstanceCapacity|UnfulfillableCapacity|ReservationCapacityExceeded"}`: allThere,
	`karpenter_pods_eviction_requests_total{code="429"}`:                                                                           "there are no PodDisruptionBudgets",
	`millwright_certificates_expiry_timestamp_seconds`:                                                                             "no etcd and NATS of the chart run",
	`millwright_disruption_nodes_held_by_budgets{reason="Drifted"}`:                                                                "the budget allows all nodes at once",
	`millwright_disruption_rollouts_halted`:                                                                                        "no DisruptionPolicy has waves",
	`millwright_export_dead_letters_total`:                                                                                         noSink,
	`millwright_export_lag_seconds`:                                                                                                noSink,
	`millwright_export_skipped_records_total`:                                                                                      noSink,
	`millwright_watcher_interruption_oldest_message_age_seconds`:                                                                   noQueue,
	`millwright_watcher_interruption_readable`:                                                                                     noQueue,
	`millwright_webhook_certificate_expiry_timestamp_seconds`:                                                                      "no webhook runs",
}

// withoutServers are further selectors that select nothing, and queries without data, where etcd and NATS are
// embedded: their settings are not looked at.
var withoutServers = map[string]string{
	"log-and-stream, Unsafe settings A":                      inProcess,
	`millwright_unsafe_setting{finding!="etcd_not_flushed"}`: inProcess,
	`millwright_unsafe_setting{finding="etcd_not_flushed"}`:  inProcess,
}

const inProcess = "embedded servers have no settings that are unsafe"

// observe has Prometheus scrape the stack until the function that it returns is called, which demands that
// every query of the dashboards has had data by then, except dataless, that what the rules select has been
// there, except absent, and that every rule can be evaluated.
func (e *env) observe() (ended func()) {
	e.Helper()
	program := filepath.Join(e.TempDir(), "observe")
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
			Samples, Selected map[string]int
			Rules             int
			Errors            []string
		}
		if err := json.Unmarshal(out.Bytes(), &found); err != nil {
			e.Fatal(err)
		}
		for _, p := range found.Errors {
			e.Error(p)
		}
		if len(found.Samples) < 100 || len(found.Selected) < 40 || found.Rules < 30 {
			e.Errorf("%d queries, %d selectors and %d rules were evaluated", len(found.Samples), len(found.Selected), found.Rules)
		}
		checkObserved(e.T, "the dashboards' query", found.Samples, e.unobserved(dataless, found.Samples))
		checkObserved(e.T, "the rules' selector", found.Selected, e.unobserved(absent, found.Selected))
	}
}

// unobserved are those of a list, and of withoutServers as far as they were asked.
func (e *env) unobserved(list map[string]string, asked map[string]int) map[string]string {
	list = maps.Clone(list)
	for where, reason := range withoutServers {
		if _, ok := asked[where]; ok && !e.stack.HasServers() {
			list[where] = reason
		}
	}
	return list
}

// checkObserved demands data of everything but of what is listed, and none of that.
func checkObserved(t *testing.T, what string, samples map[string]int, without map[string]string) {
	t.Helper()
	for _, where := range slices.Sorted(maps.Keys(samples)) {
		switch n, reason := samples[where], without[where]; {
		case n == 0 && reason == "":
			t.Errorf("%s %q never had data", what, where)
		case n > 0 && reason != "":
			t.Errorf("%s %q had data: take it off the list (%s)", what, where, reason)
		}
	}
	for where := range without {
		if _, there := samples[where]; !there {
			t.Errorf("there is no %q: take it off the list", where)
		}
	}
}
