package preflight

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	// quotaAdvised is the chart's; quotaLeast is etcd's own default, which a busy week fills.
	quotaAdvised = 8 << 30
	quotaLeast   = 2 << 30
	// syncAdvised is NATS's own default.
	syncAdvised = 2 * time.Minute
	// pageMax bounds a page that is read.
	pageMax = 16 << 20
	// fsyncEvidence is how many proposals an etcd must have applied before it says something that it has
	// flushed none.
	fsyncEvidence = 10
)

const external = "docs/external.md says how to set one up."

func checkEtcd(ctx context.Context, cfg Config, r *report) {
	if cfg.EtcdMembers == nil {
		r.add(Skipped, "", "In mode distributed, name it by --etcd-endpoints, or run this in a pod of Millwright.", "no external etcd is known; mode embedded has its own")
		return
	}
	members, err := cfg.EtcdMembers(ctx)
	switch {
	case err != nil:
		r.add(Failed, "", "Look at endpoints, certificates and users. "+external, "%v", err)
		return
	case members == 1:
		r.add(Warning, "", "Run three members. "+external, "etcd has one member: while it is away nothing is decided, and with its disk the log is lost")
	case members%2 == 0:
		r.add(Warning, "", "Run an odd number of members. "+external, "etcd has %d members, of which no more may be away than of %d", members, members-1)
	default:
		r.add(OK, "", "", "etcd has %d members", members)
	}
	for _, page := range cfg.EtcdMetrics {
		text, err := get(ctx, page)
		if err != nil {
			r.add(Skipped, page, "Name the members' metrics pages by --etcd-metrics-urls.", "quota and fsync are told by metrics only: %v", err)
			continue
		}
		judgeQuota(page, text, r)
		judgeFsync(page, text, r)
	}
}

func judgeQuota(page, text string, r *report) {
	quota := int64(sample(text, "etcd_server_quota_backend_bytes"))
	if quota <= quotaLeast {
		r.add(Warning, page, fmt.Sprintf("Start etcd with --quota-backend-bytes=%d.", int64(quotaAdvised)),
			"the quota is %d MiB: at the quota etcd takes no more writes", quota>>20)
		return
	}
	r.add(OK, page, "", "the quota is %d MiB", quota>>20)
}

// judgeFsync: a member that runs with --unsafe-no-fsync applies proposals and flushes none.
func judgeFsync(page, text string, r *report) {
	applied, flushed := sample(text, "etcd_server_proposals_applied_total"), sample(text, "etcd_disk_wal_fsync_duration_seconds_count")
	switch {
	case flushed > 0:
		r.add(OK, page, "", "it flushes its writes to disk")
	case applied < fsyncEvidence:
		r.add(Skipped, page, "", "it has done too little to tell whether it flushes its writes to disk")
	default:
		r.add(Failed, page, "Start etcd without --unsafe-no-fsync.",
			"it flushes nothing to disk: with the power go records, and with them what keeps an instance from being launched twice")
	}
}

// sample of a metric without labels; 0 if there is none.
func sample(text, name string) float64 {
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, pageMax)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			n, err := strconv.ParseFloat(value, 64)
			if err == nil {
				return n
			}
		}
	}
	return 0
}

// varz is the part of NATS's monitoring page that matters here.
type varz struct {
	Version string `json:"version"`
	Cluster struct {
		URLs []string `json:"urls"`
	} `json:"cluster"`
	JetStream struct {
		Config *struct {
			SyncInterval time.Duration `json:"sync_interval"`
			SyncAlways   bool          `json:"sync_always"`
		} `json:"config"`
	} `json:"jetstream"`
}

func checkNATS(ctx context.Context, cfg Config, r *report) {
	if len(cfg.NATSMonitoring) == 0 {
		r.add(Skipped, "", "In mode distributed, name the members' monitoring pages by --nats-monitoring-urls, or run this in a pod of Millwright.",
			"no external NATS is known; mode embedded has its own")
		return
	}
	for _, page := range cfg.NATSMonitoring {
		v := varz{}
		text, err := get(ctx, strings.TrimSuffix(page, "/")+"/varz")
		if err == nil {
			err = json.Unmarshal([]byte(text), &v)
		}
		if err != nil {
			r.add(Skipped, page, "", "read the monitoring page: %v", err)
			continue
		}
		v.judge(page, len(cfg.NATSMonitoring), r)
	}
}

func (v varz) judge(page string, pages int, r *report) {
	c := v.JetStream.Config
	switch members := max(len(v.Cluster.URLs), pages); {
	case c == nil:
		r.add(Failed, page, "Enable JetStream: deploy/nats/nats.conf.", "NATS %s has no JetStream, which holds the observations", v.Version)
	case members == 1:
		r.add(Warning, page, "Run three servers. "+external, "NATS %s is one server: while it is away nothing is decided", v.Version)
	case !c.SyncAlways && c.SyncInterval > syncAdvised:
		r.add(Warning, page, "Leave sync_interval at its default of two minutes.",
			"NATS %s flushes every %s: what the power takes from all servers together is observed anew, but replay has a gap", v.Version, c.SyncInterval)
	default:
		r.add(OK, page, "", "NATS %s, one of %d servers, flushes every %s", v.Version, members, c.SyncInterval)
	}
}

// get a page.
func get(ctx context.Context, page string) (string, error) {
	if _, err := url.ParseRequestURI(page); err != nil {
		return "", fmt.Errorf("get %q: %w", page, err)
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, pageMax))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("get %s: %s", page, resp.Status)
	}
	return string(text), err
}
