package durability

import (
	"bufio"
	"context"
	"fmt"
	"strconv"
	"strings"
)

const (
	// quotaAdvised is the chart's; quotaLeast is etcd's own default, which a busy week fills.
	quotaAdvised = 8 << 30
	quotaLeast   = 2 << 30
	// fsyncEvidence is how many proposals an etcd must have applied before it says something that it has
	// flushed none.
	fsyncEvidence = 10
)

func checkEtcd(ctx context.Context, cfg Config, r *report) {
	if cfg.EtcdMembers != nil {
		checkMembers(ctx, cfg, r)
	}
	for _, page := range cfg.EtcdMetrics {
		text, err := get(ctx, cfg.EtcdClient, page)
		if err != nil {
			r.add(EtcdNotFlushed, Unknown, page, "Name the members' metrics pages by --etcd-metrics-urls.", "quota and fsync are told by metrics only: %v", err)
			continue
		}
		judgeQuota(page, text, r)
		judgeFsync(page, text, r)
	}
}

func checkMembers(ctx context.Context, cfg Config, r *report) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	members, err := cfg.EtcdMembers(ctx)
	switch {
	case err != nil:
		r.add(EtcdOneMember, Unknown, "", "Look at endpoints, certificates and users. "+external, "%v", err)
	case members == 1:
		r.add(EtcdOneMember, Unsafe, "", "Run three members. "+external, "etcd has one member: while it is away nothing is decided, and with its disk the log is lost")
	case members%2 == 0:
		r.add(EtcdEvenMembers, Unsafe, "", "Run an odd number of members. "+external, "etcd has %d members, of which no more may be away than of %d", members, members-1)
	default:
		r.add(EtcdOneMember, Safe, "", "", "etcd has %d members", members)
	}
}

func judgeQuota(page, text string, r *report) {
	quota := int64(sample(text, "etcd_server_quota_backend_bytes"))
	if quota <= quotaLeast {
		r.add(EtcdSmallQuota, Unsafe, page, fmt.Sprintf("Start etcd with --quota-backend-bytes=%d.", int64(quotaAdvised)),
			"the quota is %d MiB: at the quota etcd takes no more writes", quota>>20)
		return
	}
	r.add(EtcdSmallQuota, Safe, page, "", "the quota is %d MiB", quota>>20)
}

// judgeFsync: a member that runs with --unsafe-no-fsync applies proposals and flushes none.
func judgeFsync(page, text string, r *report) {
	applied, flushed := sample(text, "etcd_server_proposals_applied_total"), sample(text, "etcd_disk_wal_fsync_duration_seconds_count")
	switch {
	case flushed > 0:
		r.add(EtcdNotFlushed, Safe, page, "", "it flushes its writes to disk")
	case applied < fsyncEvidence:
		r.add(EtcdNotFlushed, Unknown, page, "", "it has done too little to tell whether it flushes its writes to disk")
	default:
		r.add(EtcdNotFlushed, Broken, page, "Start etcd without --unsafe-no-fsync.",
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
