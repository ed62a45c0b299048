package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"millwright/services/internal/process"
)

// docs/metrics.md is as the code says.
func TestPageIsUpToDate(t *testing.T) {
	have, err := os.ReadFile("../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != page(groups()) {
		t.Error("docs/metrics.md is out of date: run make generate")
	}
}

// Every metric has a meaning and a name of ours, and types and labels are read as they were registered.
func TestMetricsAreDescribed(t *testing.T) {
	byName := map[string]metric{}
	for _, g := range groups() {
		if len(g.metrics) == 0 {
			t.Errorf("section %s is empty", g.title)
		}
		for _, m := range g.metrics {
			byName[m.name] = m
			if m.help == "" || !regexp.MustCompile(`^(karpenter|millwright|operator|aws_sdk_go|client_go|leader_election|controller_runtime|workqueue)_`).MatchString(m.name) {
				t.Errorf("%s: meaning %q", m.name, m.help)
			}
		}
	}
	for name, want := range map[string]string{
		"karpenter_nodes_termination_duration_seconds":        "summary nodepool",
		"karpenter_pods_scheduling_decision_duration_seconds": "histogram ",
		"karpenter_nodeclaims_created_total":                  "counter reason nodepool min_values_relaxed",
		"millwright_control_stopped":                          "gauge level",
		"millwright_watcher_resyncs_total":                    "counter ",
		"millwright_SERVICE_leader":                           "gauge ",
		"millwright_clock_offset_seconds":                     "gauge witness",
	} {
		m := byName[name]
		if got := m.kind + " " + strings.Join(m.labels, " "); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

var renamed = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| `([a-z_]+)` \\| 1\\.\\d+ \\|$")

// The former names are all renames that the reference tells of (operations §2.6) whose present name is that
// of a metric, and nothing else.
func TestFormerNamesAreThoseOfTheReference(t *testing.T) {
	names := map[string]bool{}
	for _, g := range groups() {
		for _, m := range g.metrics {
			names[m.name] = true
		}
	}
	reference, err := os.ReadFile("../../../docs/reference/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	want := map[process.FormerName]bool{}
	for _, row := range renamed.FindAllStringSubmatch(string(reference), -1) {
		n := process.FormerName{Former: "karpenter_" + row[1], Name: "karpenter_" + row[2]}
		if names[n.Former] {
			t.Errorf("%s is a metric of its own", n.Former)
		}
		if names[n.Name] {
			want[n] = true
		}
	}
	for _, n := range process.FormerNames {
		if !want[n] {
			t.Errorf("the reference does not tell that %s was %s", n.Name, n.Former)
		}
		delete(want, n)
	}
	if len(want) > 0 {
		t.Errorf("not served under their former names: %v", want)
	}
}

// Every package that makes metrics is among the sources: its directory is named in the imports of this one.
func TestNoPackageIsMissing(t *testing.T) {
	imports, err := os.ReadFile("groups.go")
	if err != nil {
		t.Fatal(err)
	}
	makes := regexp.MustCompile(`prometheus\.(New(Counter|Gauge|Histogram|Summary|Desc)|(Counter|Gauge|Histogram|Summary)Opts)`)
	found := 0
	err = filepath.WalkDir("../..", func(file string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "../../cmd/") {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil || !makes.Match(text) {
			return err
		}
		found++
		dir := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(file)), "../../")
		if !strings.Contains(string(imports), `"millwright/services/`+dir+`"`) {
			t.Errorf("%s makes metrics that are in no section", file)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 15 {
		t.Errorf("found %d files with metrics", found)
	}
}

// asked are what the dashboards and alerts for Karpenter that are well known ask for (operations §6): the
// getting-started guide's Capacity and Performance, the community's mixin with its alerts, and the alerts
// that people add. Of each metric its type and the labels they group and filter by.
var asked = map[string]string{
	// Capacity: variables, nodes and NodePools.
	"karpenter_nodes_allocatable":                    "gauge nodepool zone region arch os capacity_type instance_type node_name resource_type",
	"karpenter_nodes_total_pod_requests":             "gauge nodepool zone capacity_type instance_type node_name resource_type",
	"karpenter_nodes_total_daemon_requests":          "gauge nodepool zone capacity_type instance_type node_name resource_type",
	"karpenter_nodes_total_pod_limits":               "gauge nodepool zone capacity_type instance_type node_name resource_type",
	"karpenter_nodes_total_daemon_limits":            "gauge nodepool zone capacity_type instance_type node_name resource_type",
	"karpenter_nodes_system_overhead":                "gauge nodepool zone capacity_type instance_type node_name resource_type",
	"karpenter_nodes_created_total":                  "counter nodepool",
	"karpenter_nodes_terminated_total":               "counter nodepool",
	"karpenter_voluntary_disruption_eligible_nodes":  "gauge reason",
	"karpenter_voluntary_disruption_decisions_total": "counter decision reason consolidation_type",
	"karpenter_nodeclaims_disrupted_total":           "counter reason nodepool capacity_type",
	"karpenter_pods_disruption_initiated_total":      "counter reason nodepool capacity_type",
	"karpenter_nodepools_usage":                      "gauge nodepool resource_type",
	"karpenter_nodepools_limit":                      "gauge nodepool resource_type",
	"karpenter_nodepools_allowed_disruptions":        "gauge nodepool reason",
	"karpenter_pods_state":                           "gauge name namespace owner node nodepool zone arch capacity_type instance_type phase", // --pod-metrics
	"karpenter_cluster_state_node_count":             "gauge",
	"karpenter_build_info":                           "gauge version",
	// Performance.
	"karpenter_nodes_termination_duration_seconds":                        "summary nodepool",
	"karpenter_scheduler_scheduling_duration_seconds":                     "histogram controller",
	"karpenter_scheduler_queue_depth":                                     "gauge controller",
	"karpenter_voluntary_disruption_decision_evaluation_duration_seconds": "histogram reason consolidation_type",
	// The mixin: activity, errors, interruptions, cost.
	"karpenter_nodeclaims_created_total":                            "counter nodepool reason",
	"karpenter_nodeclaims_terminated_total":                         "counter nodepool capacity_type",
	"karpenter_nodeclaims_termination_duration_seconds":             "histogram nodepool",
	"karpenter_cloudprovider_errors_total":                          "counter controller method provider error",
	"karpenter_cloudprovider_duration_seconds":                      "histogram controller method provider",
	"karpenter_cloudprovider_instance_type_offering_price_estimate": "gauge instance_type capacity_type zone",
	"karpenter_cloudprovider_instance_type_offering_available":      "gauge instance_type capacity_type zone",
	"karpenter_cloudprovider_instance_type_cpu_cores":               "gauge instance_type",
	"karpenter_cloudprovider_instance_type_memory_bytes":            "gauge instance_type",
	"karpenter_interruption_received_messages_total":                "counter message_type",
	"karpenter_interruption_deleted_messages_total":                 "counter",
	"karpenter_interruption_message_queue_duration_seconds":         "histogram",
	// How long pods wait.
	"karpenter_pods_startup_duration_seconds":                       "summary",
	"karpenter_pods_bound_duration_seconds":                         "histogram",
	"karpenter_pods_provisioning_bound_duration_seconds":            "histogram",
	"karpenter_pods_provisioning_startup_duration_seconds":          "histogram",
	"karpenter_pods_unbound_time_seconds":                           "gauge name namespace", // --pod-metrics, as those below
	"karpenter_pods_unstarted_time_seconds":                         "gauge name namespace",
	"karpenter_pods_provisioning_unbound_time_seconds":              "gauge name namespace",
	"karpenter_pods_provisioning_unstarted_time_seconds":            "gauge name namespace",
	"karpenter_pods_provisioning_scheduling_undecided_time_seconds": "gauge name namespace",
	"karpenter_scheduler_unfinished_work_seconds":                   "gauge controller scheduling_id",
	"karpenter_scheduler_pending_pods_by_effective_zone_count":      "gauge controller zone",
	"karpenter_cluster_state_unsynced_time_seconds":                 "gauge",
	// What launches and terminations meet.
	"karpenter_cloudprovider_batcher_batch_time_seconds":          "histogram batcher",
	"karpenter_cloudprovider_batcher_batch_size":                  "histogram batcher",
	"karpenter_cloudprovider_instance_termination_failures_total": "counter zone zone_id",
	"karpenter_ec2nodeclasses_userdata_bytes":                     "gauge nodeclass",
	// Libraries.
	"aws_sdk_go_request_total":                     "counter service action status_code",
	"aws_sdk_go_request_attempt_total":             "counter service action status_code",
	"aws_sdk_go_request_duration_seconds":          "histogram service action status_code",
	"aws_sdk_go_request_attempt_duration_seconds":  "histogram service action status_code",
	"aws_sdk_go_request_retry_count":               "histogram service action status_code",
	"leader_election_master_status":                "gauge name",
	"controller_runtime_reconcile_total":           "counter controller result",
	"controller_runtime_reconcile_errors_total":    "counter controller",
	"controller_runtime_reconcile_panics_total":    "counter controller",
	"controller_runtime_reconcile_time_seconds":    "histogram controller",
	"controller_runtime_max_concurrent_reconciles": "gauge controller",
	"controller_runtime_active_workers":            "gauge controller",
	"workqueue_depth":                              "gauge name controller",
	"workqueue_adds_total":                         "counter name controller",
	"workqueue_queue_duration_seconds":             "histogram name controller",
	"workqueue_work_duration_seconds":              "histogram name controller",
	"workqueue_unfinished_work_seconds":            "gauge name controller",
	"workqueue_longest_running_processor_seconds":  "gauge name controller",
	"workqueue_retries_total":                      "counter name controller",
	"client_go_request_total":                      "counter code method",
	"client_go_request_duration_seconds":           "histogram verb group version kind subresource",
	// Alerts.
	"karpenter_cluster_state_synced":                              "gauge",
	"karpenter_voluntary_disruption_consolidation_timeouts_total": "counter consolidation_type",
	"karpenter_voluntary_disruption_queue_failures_total":         "counter decision reason consolidation_type",
	"karpenter_scheduler_unschedulable_pods_count":                "gauge controller",
	"operator_status_condition_count":                             "gauge namespace name group kind type status reason",
	"operator_nodepool_status_condition_count":                    "gauge namespace name type status reason",
	"operator_nodeclaim_status_condition_count":                   "gauge namespace name type status reason karpenter_sh_nodepool karpenter_k8s_aws_ec2nodeclass",
	"operator_ec2nodeclass_status_condition_count":                "gauge namespace name type status reason",
	"operator_node_status_condition_count":                        "gauge namespace name type status reason karpenter_sh_nodepool karpenter_k8s_aws_ec2nodeclass karpenter_sh_initialized",
}

// askedInVain are what they ask for and Millwright has not: how the reference lists it, and why.
var askedInVain = map[string]struct{ listed, why string }{
	"controller_runtime_terminal_reconcile_errors_total": {"`controller_runtime_terminal_reconcile_errors_total`", "no error of a step is final"},
}

// What dashboards and alerts for Karpenter ask for is there, with its type and labels; the exceptions are in
// the list of what is missing.
func TestWhatDashboardsForKarpenterAskForIsThere(t *testing.T) {
	have := map[string]metric{}
	for _, g := range groups() {
		for _, m := range g.metrics {
			have[m.name] = m
		}
	}
	for name, want := range asked {
		m, ok := have[name]
		kind, labels, _ := strings.Cut(want, " ")
		switch {
		case !ok:
			t.Errorf("there is no %s", name)
			continue
		case m.kind != kind:
			t.Errorf("%s is a %s, not a %s", name, m.kind, kind)
		}
		for _, l := range strings.Fields(labels) {
			if !slices.Contains(m.labels, l) {
				t.Errorf("%s has the labels %v, not %s", name, m.labels, l)
			}
		}
	}
	missing, err := os.ReadFile("../../../docs/reference/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range askedInVain {
		if _, ok := have[name]; ok {
			t.Errorf("%s is there, although %s", name, c.why)
		}
		if !strings.Contains(string(missing), c.listed) {
			t.Errorf("the reference does not tell that %s is missing", c.listed)
		}
	}
}
