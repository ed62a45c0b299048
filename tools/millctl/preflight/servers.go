package preflight

import (
	"context"

	"millwright/services/durability"
)

// verdicts of preflight on findings about servers.
var verdicts = map[durability.Verdict]Verdict{durability.Safe: OK, durability.Unsafe: Warning, durability.Broken: Failed, durability.Unknown: Skipped}

func (r *report) take(results []durability.Result) {
	for _, x := range results {
		r.add(verdicts[x.Verdict], x.Object, x.Remedy, "%s", x.Message)
	}
}

func checkEtcd(ctx context.Context, cfg Config, r *report) {
	if cfg.Servers.EtcdMembers == nil {
		r.add(Skipped, "", "In mode distributed, name it by --etcd-endpoints, or run this in a pod of Millwright.", "no external etcd is known; mode embedded has its own")
		return
	}
	r.take(durability.Check(ctx, durability.Config{EtcdMembers: cfg.Servers.EtcdMembers, EtcdMetrics: cfg.Servers.EtcdMetrics, EtcdClient: cfg.Servers.EtcdClient}))
}

func checkNATS(ctx context.Context, cfg Config, r *report) {
	if len(cfg.Servers.NATSMonitoring) == 0 {
		r.add(Skipped, "", "In mode distributed, name the members' monitoring pages by --nats-monitoring-urls, or run this in a pod of Millwright.",
			"no external NATS is known; mode embedded has its own")
		return
	}
	r.take(durability.Check(ctx, durability.Config{NATSMonitoring: cfg.Servers.NATSMonitoring, NATSClient: cfg.Servers.NATSClient}))
}
