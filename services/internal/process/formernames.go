package process

import (
	"cmp"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// FormerName of a metric: Karpenter called it so before version 1.0, or in one before it renamed the metric
// (reference: operations §2.6).
type FormerName struct{ Former, Name string }

// FormerNames are those that --metrics-compat brings back, by the present name. Karpenter changed some labels
// too; here both names have the labels of the present one.
var FormerNames = []FormerName{
	{"karpenter_interruption_deleted_messages", "karpenter_interruption_deleted_messages_total"},
	{"karpenter_interruption_message_latency_time_seconds", "karpenter_interruption_message_queue_duration_seconds"},
	{"karpenter_interruption_received_messages", "karpenter_interruption_received_messages_total"},
	{"karpenter_nodeclaims_created", "karpenter_nodeclaims_created_total"},
	{"karpenter_nodeclaims_disrupted", "karpenter_nodeclaims_disrupted_total"},
	{"karpenter_nodeclaims_terminated", "karpenter_nodeclaims_terminated_total"},
	{"karpenter_disruption_budgets_allowed_disruptions", "karpenter_nodepools_allowed_disruptions"},
	{"karpenter_nodepool_limit", "karpenter_nodepools_limit"},
	{"karpenter_nodepool_usage", "karpenter_nodepools_usage"},
	{"karpenter_nodes_created", "karpenter_nodes_created_total"},
	{"karpenter_nodes_terminated", "karpenter_nodes_terminated_total"},
	{"karpenter_nodes_termination_time_seconds", "karpenter_nodes_termination_duration_seconds"},
	{"karpenter_pods_pods_drained_total", "karpenter_pods_drained_total"},
	{"karpenter_nodes_eviction_requests_total", "karpenter_pods_eviction_requests_total"},
	{"karpenter_pods_scheduling_undecided_time_seconds", "karpenter_pods_provisioning_scheduling_undecided_time_seconds"},
	{"karpenter_pods_startup_time_seconds", "karpenter_pods_startup_duration_seconds"},
	{"karpenter_ignored_pod_count", "karpenter_scheduler_ignored_pods_count"},
	{"karpenter_provisioner_scheduling_queue_depth", "karpenter_scheduler_queue_depth"},
	{"karpenter_provisioner_scheduling_simulation_duration_seconds", "karpenter_scheduler_scheduling_duration_seconds"},
	{"karpenter_disruption_consolidation_timeouts_total", "karpenter_voluntary_disruption_consolidation_timeouts_total"},
	{"karpenter_disruption_evaluation_duration_seconds", "karpenter_voluntary_disruption_decision_evaluation_duration_seconds"},
	{"karpenter_disruption_actions_performed_total", "karpenter_voluntary_disruption_decisions_total"},
	{"karpenter_disruption_eligible_nodes", "karpenter_voluntary_disruption_eligible_nodes"},
	{"karpenter_disruption_replacement_nodeclaim_failures_total", "karpenter_voluntary_disruption_queue_failures_total"},
}

// withFormerNames gathers each metric that has a former name under both.
func withFormerNames(g prometheus.Gatherer) prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		families, err := g.Gather()
		byName := map[string]*dto.MetricFamily{}
		for _, f := range families {
			byName[f.GetName()] = f
		}
		for _, n := range FormerNames {
			f := byName[n.Name]
			if f == nil || byName[n.Former] != nil {
				continue
			}
			former, help := n.Former, f.GetHelp()+" Now "+n.Name+"."
			families = append(families, &dto.MetricFamily{Name: &former, Help: &help, Type: f.Type, Unit: f.Unit, Metric: f.Metric})
		}
		slices.SortFunc(families, func(a, b *dto.MetricFamily) int { return cmp.Compare(a.GetName(), b.GetName()) })
		return families, err
	})
}
