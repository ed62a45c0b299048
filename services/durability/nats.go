package durability

import (
	"context"
	"encoding/json"
	"strings"
	"time"
)

// syncAdvised is NATS's own default.
const syncAdvised = 2 * time.Minute

// varz is the part of NATS's monitoring page that matters here.
type varz struct {
	Version string `json:"version"`
	Cluster struct {
		URLs []string `json:"urls"`
	} `json:"cluster"`
	JetStream struct {
		Config *jetStream `json:"config"`
	} `json:"jetstream"`
}

type jetStream struct {
	SyncInterval time.Duration `json:"sync_interval"`
	SyncAlways   bool          `json:"sync_always"`
}

func checkNATS(ctx context.Context, cfg Config, r *report) {
	for _, page := range cfg.NATSMonitoring {
		v := varz{}
		text, err := get(ctx, cfg.NATSClient, strings.TrimSuffix(page, "/")+"/varz")
		if plain, tls := strings.CutPrefix(page, "https://"); tls && err != nil {
			if text2, err2 := get(ctx, cfg.NATSClient, "http://"+strings.TrimSuffix(plain, "/")+"/varz"); err2 == nil {
				text, err = text2, nil
			}
		}
		if err == nil {
			err = json.Unmarshal([]byte(text), &v)
		}
		if err != nil {
			r.add(NATSNoJetStream, Unknown, page, "Name the servers' monitoring pages by --nats-monitoring-urls.", "read the monitoring page: %v", err)
			continue
		}
		v.judge(page, len(cfg.NATSMonitoring), r)
	}
}

func (v varz) judge(page string, pages int, r *report) {
	c := v.JetStream.Config
	if c == nil {
		r.add(NATSNoJetStream, Broken, page, "Enable JetStream: deploy/nats/nats.conf.", "NATS %s has no JetStream, which holds the observations", v.Version)
		return
	}
	r.add(NATSNoJetStream, Safe, page, "", "NATS %s has JetStream", v.Version)
	if members := max(len(v.Cluster.URLs), pages); members == 1 {
		r.add(NATSOneServer, Unsafe, page, "Run three servers. "+external, "NATS %s is one server: while it is away nothing is decided", v.Version)
	} else {
		r.add(NATSOneServer, Safe, page, "", "it is one of %d servers", members)
	}
	if !c.SyncAlways && c.SyncInterval > syncAdvised {
		r.add(NATSFlushedLate, Unsafe, page, "Leave sync_interval at its default of two minutes.",
			"NATS %s flushes every %s: what the power takes from all servers together is observed anew, but replay has a gap", v.Version, c.SyncInterval)
		return
	}
	r.add(NATSFlushedLate, Safe, page, "", "it flushes every %s", c.SyncInterval)
}
