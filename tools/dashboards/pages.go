package main

// nodes and pools are the filters of series of nodes and of NodePools.
const (
	nodes = `JOB, nodepool=~"$nodepool", zone=~"$zone", capacity_type=~"$capacity_type", instance_type=~"$instance_type"`
	pools = `JOB, nodepool=~"$nodepool"`
)

// quantiles of a histogram.
func quantiles(histogram, by string) []query {
	q := func(p string) string {
		return "histogram_quantile(" + p + ", sum by (le" + by + ") (rate(" + histogram + "_bucket{JOB}[$__rate_interval])))"
	}
	return []query{{q("0.5"), "median"}, {q("0.95"), "95 %"}, {q("0.99"), "99 %"}}
}

// perService is the same query for each deciding service; SERVICE stands for its name.
func perService(expr func(service string) string, legend string) (list []query) {
	for _, s := range []string{"provisioner", "disruptor", "terminator", "lifecycle"} {
		list = append(list, query{expr(s), s + legend})
	}
	return list
}

var pages = []page{overview, provisioning, disruption, nodesAndCost, lifecycle, logAndStream}

var overview = page{name: "overview", title: "Overview", text: "Is it healthy, what did it do today, and what do the nodes cost?", rows: []row{
	{"Is it healthy?", []panel{
		stat("Services led", "Services of which somebody is known to be the leader; 5 with all of them.", "short", "MillwrightServiceNotLed",
			`sum(max by (service) (millwright_service_led{JOB, service=~"watcher|provisioner|disruptor|terminator|lifecycle"}))`),
		stat("Age of the World", "Time since the last heartbeat that the slowest service has folded. Above 10 s nothing is planned.", "s", "MillwrightWorldStale",
			`max(millwright_world_age_seconds{JOB})`),
		stat("World whole", "1 if the picture of the cluster is whole.", "short", "MillwrightWorldNotSynced", `max(karpenter_cluster_state_synced{JOB})`),
		stat("Stopped by operators", "1 while millctl stop is in effect.", "short", "MillwrightStopped", `max(millwright_control_stopped{JOB})`),
		stat("Unschedulable pods", "Pods that the last planning round could place nowhere.", "short", "MillwrightPodsUnschedulable",
			`max(karpenter_scheduler_unschedulable_pods_count{JOB})`),
		stat("Alarms today", "Acts that were held back or paced.", "short", "MillwrightAlarm", `sum(increase(millwright_lifecycle_alarms_total{JOB}[24h])) or 0 * max(karpenter_build_info{JOB})`),
		stat("Clocks off", "Processes whose clock cannot be relied on.", "short", "MillwrightClockUnreliable", `sum(millwright_clock_unreliable{JOB})`),
		stat("Log in use", "Share of etcd's quota that the log uses.", "percentunit", "MillwrightLogFilling",
			`max(millwright_log_database_bytes{JOB, what="used"}) / max(millwright_log_database_bytes{JOB, what="quota"})`),
	}},
	{"What did it do?", []panel{
		stat("Nodes", "Nodes in the World, those of others included.", "short", "MillwrightWorldNotSynced", `max(karpenter_cluster_state_node_count{JOB})`),
		stat("Cost per hour", "What the nodes of all NodePools cost, by the prices known.", "currencyUSD", "MillwrightNodePoolNearLimit", `sum(max by (nodepool) (karpenter_nodepools_cost_total{JOB}))`),
		stat("NodeClaims created, 24 h", "Created for pods, or to replace others.", "short", "MillwrightLaunchesFail", `sum(increase(karpenter_nodeclaims_created_total{JOB}[24h]))`),
		stat("NodeClaims disrupted, 24 h", "By consolidation, drift, expiry, interruptions and failures.", "short", "MillwrightBudgetsBlock",
			`sum(increase(karpenter_nodeclaims_disrupted_total{JOB}[24h]))`),
		graph("NodeClaims created and terminated", "Per hour.", "short", "MillwrightLaunchesFail",
			query{`sum(rate(karpenter_nodeclaims_created_total{JOB}[$__rate_interval])) * 3600`, "created"},
			query{`sum(rate(karpenter_nodeclaims_terminated_total{JOB}[$__rate_interval])) * 3600`, "terminated"}),
		graph("Utilization", "Share of what pods can have of all nodes that pods request.", "percent", "MillwrightNodePoolNearLimit",
			query{`max by (resource_type) (karpenter_cluster_utilization_percent{JOB, resource_type=~"cpu|memory"})`, "{{resource_type}}"}),
	}},
}}

var provisioning = page{name: "provisioning", title: "Provisioning", text: "How fast do pods get a decision, and what cannot be placed?", rows: []row{
	{"How long do pods wait?", []panel{
		graph("First decision", "From the first sight of a pod to its first verdict.", "s", "MillwrightSchedulingSlow", quantiles("karpenter_pods_scheduling_decision_duration_seconds", "")...),
		graph("Planning round", "Duration of one planning round.", "s", "MillwrightSchedulingSlow", quantiles("karpenter_scheduler_scheduling_duration_seconds", "")...),
		graph("Unschedulable and ignored pods", "Pods that no NodePool can take, and pods that failed validation.", "short", "MillwrightPodsUnschedulable",
			query{`max(karpenter_scheduler_unschedulable_pods_count{JOB})`, "unschedulable"}, query{`max(karpenter_scheduler_ignored_pods_count{JOB})`, "ignored"},
			query{`max(karpenter_scheduler_queue_depth{JOB})`, "waiting"}),
		graph("Rounds", "Planning rounds per minute: recorded, or with the same outcome as the one before.", "short", "MillwrightSchedulingSlow",
			query{`sum by (outcome) (rate(millwright_provisioner_rounds_total{JOB}[$__rate_interval])) * 60`, "{{outcome}}"}),
	}},
	{"Does what was planned come true?", []panel{
		graph("Placement hints", "Writes of status.nominatedNodeName by outcome.", "short", "MillwrightStepsFail",
			query{`sum by (outcome) (rate(millwright_provisioner_placement_hints_total{JOB}[$__rate_interval])) * 60`, "{{outcome}}"}),
		graph("NodeClaims created", "Per hour, by NodePool.", "short", "MillwrightLaunchesFail",
			query{`sum by (nodepool) (rate(karpenter_nodeclaims_created_total{JOB, nodepool=~"$nodepool"}[$__rate_interval])) * 3600`, "{{nodepool}}"}),
	}},
}, variables: []string{"nodepool"}}

var disruption = page{name: "disruption", title: "Disruption", text: "What is taken away, why, and what holds it up?", variables: []string{"nodepool"}, rows: []row{
	{"What is taken away?", []panel{
		graph("Commands", "Commands started per hour, by reason and decision.", "short", "MillwrightBudgetsBlock",
			query{`sum by (reason, decision) (rate(karpenter_voluntary_disruption_decisions_by_nodepool_total{` + pools + `}[$__rate_interval])) * 3600`, "{{reason}} {{decision}}"}),
		graph("NodeClaims disrupted", "Per hour, by reason.", "short", "MillwrightAlarm",
			query{`sum by (reason) (rate(karpenter_nodeclaims_disrupted_total{` + pools + `}[$__rate_interval])) * 3600`, "{{reason}}"}),
		graph("Eligible nodes", "Nodes that could go if budgets allowed, by reason.", "short", "MillwrightBudgetsBlock",
			query{`max by (reason) (karpenter_voluntary_disruption_eligible_nodes{JOB})`, "{{reason}}"}),
		graph("Moves by consolidation", "Moves per hour, by decision; only those of Balanced NodePools are ever rejected.", "short", "MillwrightBudgetsBlock",
			query{`sum by (decision) (rate(karpenter_consolidation_moves_total{` + pools + `}[$__rate_interval])) * 3600`, "{{decision}}"}),
	}},
	{"What holds it up?", []panel{
		graph("Budgets", "Disruptions that budgets allow, and nodes that use them up.", "short", "MillwrightBudgetsBlock",
			query{`max by (nodepool, reason) (karpenter_nodepools_allowed_disruptions{` + pools + `})`, "{{nodepool}} {{reason}} allowed"},
			query{`max by (nodepool, reason) (karpenter_nodepools_nodes_consuming_budgets{` + pools + `})`, "{{nodepool}} {{reason}} in use"}),
		graph("Failed commands", "Nodes that were not confirmed, and replacements that were not ready, per hour.", "short", "MillwrightLaunchesFail",
			query{`sum by (consolidation_type) (rate(karpenter_voluntary_disruption_failed_validations_total{JOB}[$__rate_interval])) * 3600`, "not confirmed {{consolidation_type}}"},
			query{`sum by (consolidation_type) (rate(karpenter_voluntary_disruption_queue_failures_total{JOB}[$__rate_interval])) * 3600`, "not ready {{consolidation_type}}"}),
		graph("Evaluation", "95th percentile of the time that one method takes.", "s", "MillwrightSchedulingSlow",
			query{`histogram_quantile(0.95, sum by (le, consolidation_type) (rate(karpenter_voluntary_disruption_decision_evaluation_duration_seconds_bucket{JOB}[$__rate_interval])))`, "{{consolidation_type}}"}),
		graph("Searches out of steps", "Searches of consolidation per hour that ended because their steps were used up; the next pass goes on.", "short", "MillwrightSchedulingSlow",
			query{`sum by (consolidation_type) (rate(karpenter_voluntary_disruption_consolidation_timeouts_total{JOB}[$__rate_interval])) * 3600`, "{{consolidation_type}}"}),
		graph("Proposals", "Commands that wait for a person, by state.", "short", "MillwrightProposalsWait", query{`max by (state) (millwright_disruption_proposals{JOB})`, "{{state}}"}),
		graph("Halted", "NodePools whose roll-out in waves has failed and waits for a person.", "short", "MillwrightRolloutHalted", query{`max by (nodepool) (millwright_disruption_rollouts_halted{JOB})`, "{{nodepool}}"}),
		graph("Draining out", "Nodes that are to run empty by themselves: only protected pods and pods of Jobs keep them.", "short", "MillwrightBudgetsBlock", query{`max by (nodepool) (millwright_disruption_draining_out_nodes{JOB})`, "{{nodepool}}"}),
	}},
	{"Do drains proceed?", []panel{
		graph("Evictions", "Answers of the Eviction API per minute; 429 means that a PodDisruptionBudget refused.", "short", "MillwrightEvictionsBlocked",
			query{`sum by (code) (rate(karpenter_pods_eviction_requests_total{JOB}[$__rate_interval])) * 60`, "{{code}}"}),
		graph("Drained", "Nodes and pods drained per hour.", "short", "MillwrightEvictionsBlocked",
			query{`sum(rate(karpenter_nodes_drained_total{` + pools + `}[$__rate_interval])) * 3600`, "nodes"},
			query{`sum by (reason) (rate(karpenter_pods_drained_total{JOB}[$__rate_interval])) * 3600`, "pods {{reason}}"}),
	}},
}}

var nodesAndCost = page{name: "nodes-and-cost", title: "Nodes and cost", text: "What is there, how full is it, and what does it cost?",
	variables: []string{"nodepool", "zone", "capacity_type", "instance_type"}, rows: []row{
		{"What is there?", []panel{
			graph("Nodes by NodePool", "Nodes that match the filters.", "short", "MillwrightNodePoolNearLimit",
				query{`count by (nodepool) (karpenter_nodes_allocatable{` + nodes + `, resource_type="cpu"})`, "{{nodepool}}"}),
			graph("Nodes by instance type", "Nodes that match the filters.", "short", "MillwrightNodePoolNearLimit",
				query{`count by (instance_type) (karpenter_nodes_allocatable{` + nodes + `, resource_type="cpu"})`, "{{instance_type}}"}),
			graph("Nodes by zone and capacity type", "Nodes that match the filters.", "short", "MillwrightCapacityUnavailable",
				query{`count by (zone, capacity_type) (karpenter_nodes_allocatable{` + nodes + `, resource_type="cpu"})`, "{{zone}} {{capacity_type}}"}),
			graph("Age", "Median and greatest age of the nodes that match.", "s", "MillwrightBudgetsBlock",
				query{`quantile(0.5, karpenter_nodes_current_lifetime_seconds{` + nodes + `})`, "median"},
				query{`max(karpenter_nodes_current_lifetime_seconds{` + nodes + `})`, "greatest"}),
		}},
		{"How full is it?", []panel{
			graph("CPU", "Cores that pods can have, that pods request, and that DaemonSets request.", "short", "MillwrightNodePoolNearLimit",
				query{`sum(karpenter_nodes_allocatable{` + nodes + `, resource_type="cpu"})`, "allocatable"},
				query{`sum(karpenter_nodes_total_pod_requests{` + nodes + `, resource_type="cpu"})`, "requested"},
				query{`sum(karpenter_nodes_total_daemon_requests{` + nodes + `, resource_type="cpu"})`, "by DaemonSets"},
				query{`sum(karpenter_nodes_system_overhead{` + nodes + `, resource_type="cpu"})`, "overhead"}),
			graph("Memory", "Likewise.", "bytes", "MillwrightNodePoolNearLimit",
				query{`sum(karpenter_nodes_allocatable{` + nodes + `, resource_type="memory"})`, "allocatable"},
				query{`sum(karpenter_nodes_total_pod_requests{` + nodes + `, resource_type="memory"})`, "requested"},
				query{`sum(karpenter_nodes_total_daemon_requests{` + nodes + `, resource_type="memory"})`, "by DaemonSets"},
				query{`sum(karpenter_nodes_system_overhead{` + nodes + `, resource_type="memory"})`, "overhead"}),
			graph("Limits", "Share of each NodePool's limits that is in use.", "percentunit", "MillwrightNodePoolNearLimit",
				query{`max by (nodepool, resource_type) (karpenter_nodepools_usage{` + pools + `}) / (max by (nodepool, resource_type) (karpenter_nodepools_limit{` + pools + `}) > 0)`, "{{nodepool}} {{resource_type}}"}),
		}},
		{"What does it cost?", []panel{
			graph("USD per hour by NodePool", "By the prices known; nodes of unknown price count as 0.", "currencyUSD", "MillwrightNodePoolNearLimit",
				query{`max by (nodepool) (karpenter_nodepools_cost_total{` + pools + `})`, "{{nodepool}}"}),
		}},
	}}

var lifecycle = page{name: "lifecycle-and-ec2", title: "Lifecycle and EC2", text: "Do launches succeed, do nodes join, and does AWS answer?", variables: []string{"nodepool", "zone", "capacity_type"}, rows: []row{
	{"Do launches succeed?", []panel{
		graph("Failed offerings", "Offerings that failed to launch per hour, by reason.", "short", "MillwrightLaunchesFail",
			query{`sum by (reason) (rate(karpenter_cloudprovider_instance_launch_failures_total{JOB, zone=~"$zone", capacity_type=~"$capacity_type"}[$__rate_interval])) * 3600`, "{{reason}}"}),
		graph("Nodes", "Nodes that joined and nodes that were terminated per hour.", "short", "MillwrightLaunchesFail",
			query{`sum(rate(karpenter_nodes_created_total{` + pools + `}[$__rate_interval])) * 3600`, "joined"},
			query{`sum(rate(karpenter_nodes_terminated_total{` + pools + `}[$__rate_interval])) * 3600`, "terminated"}),
		graph("Termination of NodeClaims", "From deletion to the end.", "s", "MillwrightEvictionsBlocked", quantiles("karpenter_nodeclaims_termination_duration_seconds", "")...),
		graph("Orphans, alarms and unhealthy nodes", "Per hour: instances without a NodeClaim, acts that were held back, nodes replaced by node repair.", "short", "MillwrightAlarm",
			query{`sum(rate(millwright_lifecycle_orphans_total{JOB}[$__rate_interval])) * 3600`, "orphans"},
			query{`sum by (reason) (rate(millwright_lifecycle_alarms_total{JOB}[$__rate_interval])) * 3600`, "{{reason}}"},
			query{`sum(rate(karpenter_nodeclaims_unhealthy_disrupted_total{` + pools + `}[$__rate_interval])) * 3600`, "unhealthy"}),
	}},
	{"Does AWS answer?", []panel{
		graph("AWS calls", "Per minute, by action and outcome.", "short", "MillwrightAWSCallsFail",
			query{`sum by (action, outcome) (rate(millwright_aws_calls_total{JOB}[$__rate_interval])) * 60`, "{{action}} {{outcome}}"}),
		graph("Duration of AWS calls", "95th percentile with retries, by action.", "s", "MillwrightLaneFull",
			query{`histogram_quantile(0.95, sum by (le, action) (rate(millwright_aws_call_duration_seconds_bucket{JOB}[$__rate_interval])))`, "{{action}}"}),
		graph("Effects that wait", "Effects of lifecycle and terminator without room in their lane.", "short", "MillwrightLaneFull",
			query{`sum by (lane) (millwright_lifecycle_effects_waiting{JOB})`, "lifecycle {{lane}}"}, query{`sum by (lane) (millwright_terminator_effects_waiting{JOB})`, "terminator {{lane}}"}),
		graph("Age of answers", "Time since each poll of AWS last succeeded.", "s", "MillwrightAWSPollsFail",
			query{`time() - max by (poll) (millwright_watcher_aws_last_success_timestamp_seconds{JOB})`, "{{poll}}"}),
	}},
	{"Are interruptions heard of in time?", []panel{
		graph("Messages", "Messages of the interruption queue per minute, by kind.", "short", "MillwrightInterruptionQueueUnreadable",
			query{`sum by (message_type) (rate(karpenter_interruption_received_messages_total{JOB}[$__rate_interval])) * 60`, "{{message_type}}"}),
		graph("Delay", "Age of the oldest message received last, and the median delay of messages.", "s", "MillwrightInterruptionQueueLate",
			query{`max(millwright_watcher_interruption_oldest_message_age_seconds{JOB})`, "oldest"},
			query{`histogram_quantile(0.5, sum by (le) (rate(karpenter_interruption_message_queue_duration_seconds_bucket{JOB}[$__rate_interval])))`, "median"}),
	}},
}}

var logAndStream = page{name: "log-and-stream", title: "Log and stream", text: "Do etcd and NATS answer, and do all services follow them?", rows: []row{
	{"Do services follow?", []panel{
		graph("Age of the World", "Time since the last heartbeat folded, by process.", "s", "MillwrightWorldStale", query{`millwright_world_age_seconds{JOB}`, "{{instance}}"}),
		graph("Fold lag", "Age of the last observation when it was folded, and of the last record while records come.", "s", "MillwrightFoldLag",
			query{`max(millwright_world_fold_lag_seconds{JOB})`, "observations"}, query{`max(millwright_ledger_fold_lag_seconds{JOB} and changes(millwright_ledger_seq{JOB}[$__rate_interval]) > 0)`, "records"}),
		graph("Snapshots refused", "Per minute, by service and reason: why nothing could be decided.", "short", "MillwrightWorldNotSynced",
			perService(func(s string) string {
				return "sum by (reason) (rate(millwright_" + s + "_snapshots_refused_total{JOB}[$__rate_interval])) * 60"
			}, " {{reason}}")...),
		graph("Steps", "95th percentile of the duration of a step.", "s", "MillwrightStepsFail", perService(func(s string) string {
			return "histogram_quantile(0.95, sum by (le) (rate(millwright_" + s + "_step_duration_seconds_bucket{JOB}[$__rate_interval])))"
		}, "")...),
		graph("World repaired", "Times per hour that the World differed from what was published, and messages that could not be folded.", "short", "MillwrightWorldDrifts",
			query{`sum by (kind) (rate(millwright_world_drifts_total{JOB}[$__rate_interval])) * 3600`, "{{kind}}"},
			query{`sum by (reason) (rate(millwright_observations_refused_total{JOB}[$__rate_interval])) * 3600`, "{{reason}}"}),
	}},
	{"Does etcd answer?", []panel{
		graph("Appends", "Per minute, by service and outcome.", "short", "MillwrightAppendsFail", perService(func(s string) string {
			return "sum by (outcome) (rate(millwright_" + s + "_appends_total{JOB}[$__rate_interval])) * 60"
		}, " {{outcome}}")...),
		graph("Duration of appends", "95th percentile until an append was acknowledged and folded.", "s", "MillwrightAppendsFail", perService(func(s string) string {
			return "histogram_quantile(0.95, sum by (le) (rate(millwright_" + s + "_append_duration_seconds_bucket{JOB}[$__rate_interval])))"
		}, "")...),
		graph("Database", "The log's database: quota, file and what is in use.", "bytes", "MillwrightLogFilling", query{`max by (what) (millwright_log_database_bytes{JOB})`, "{{what}}"}),
		graph("Keeping the log", "Checkpoints, archived records and failures per hour.", "short", "MillwrightLogKeepingFails",
			query{`sum(rate(millwright_ledger_checkpoints_total{JOB}[$__rate_interval])) * 3600`, "checkpoints"},
			query{`sum(rate(millwright_log_archived_records_total{JOB}[$__rate_interval])) * 3600`, "archived records"},
			query{`sum(rate(millwright_log_keeping_failures_total{JOB}[$__rate_interval])) * 3600`, "failures"}),
	}},
	{"Does NATS answer?", []panel{
		graph("Published", "Observations per minute, by kind.", "short", "MillwrightBusUnreachable",
			query{`sum by (kind) (rate(millwright_watcher_published_total{JOB}[$__rate_interval])) * 60`, "{{kind}}"}),
		graph("Unacknowledged", "Publishes without an acknowledgement, and messages that the watcher has not folded for its checkpoints.", "short", "MillwrightBusUnreachable",
			query{`max(millwright_watcher_queue_messages{JOB})`, "unacknowledged"},
			query{`max(millwright_watcher_stream_last_sequence{JOB}) - max(millwright_watcher_folded_sequence{JOB})`, "not folded"}),
		graph("Resyncs and heartbeats withheld", "Per hour.", "short", "MillwrightWorldStale",
			query{`sum(rate(millwright_watcher_resyncs_total{JOB}[$__rate_interval])) * 3600`, "resyncs"},
			query{`sum(rate(millwright_watcher_heartbeats_withheld_total{JOB}[$__rate_interval])) * 3600`, "withheld"}),
		graph("Clocks", "How far each process's clock is ahead of its witnesses.", "s", "MillwrightClockUnreliable",
			query{`millwright_clock_offset_seconds{JOB}`, "{{instance}} {{witness}}"}),
	}},
	{"Can the record be relied on?", []panel{
		graph("Decisions taken again", "Recorded decisions that were taken again per hour, by outcome; diverged is to stay at 0.", "short", "MillwrightReplayDiverges",
			query{`sum by (outcome) (rate(millwright_replay_checks_total{JOB}[$__rate_interval])) * 3600`, "{{outcome}}"}),
		graph("Duration of a replay", "95th percentile of the time that it took to take one decision again.", "s", "MillwrightReplayDiverges",
			query{`histogram_quantile(0.95, sum by (le) (rate(millwright_replay_check_duration_seconds_bucket{JOB}[$__rate_interval])))`, "one decision"}),
		graph("Unsafe settings", "1: a setting of the external etcd or NATS is unsafe. Nothing is shown of what is not known, nor of embedded servers.", "short", "MillwrightUnsafeSetting",
			query{`max by (finding) (millwright_unsafe_setting{JOB})`, "{{finding}}"}),
	}},
}}
