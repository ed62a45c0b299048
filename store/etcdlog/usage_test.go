package etcdlog

import (
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"millwright/store"
)

func TestAQuotaThatEtcdDoesNotReportIsNotReached(t *testing.T) {
	const file = 5 << 29
	for name, c := range map[string]struct {
		reported int64
		want     store.Usage
		full     bool
	}{
		"etcd before 3.6":       {0, store.Usage{QuotaBytes: 2 << 30, Assumed: true, FileBytes: file, UsedBytes: file}, false},
		"it is switched off":    {-1, store.Usage{QuotaBytes: 2 << 30, Assumed: true, FileBytes: file, UsedBytes: file}, false},
		"it is reported":        {8 << 30, store.Usage{QuotaBytes: 8 << 30, FileBytes: file, UsedBytes: file}, false},
		"reported, and reached": {2 << 30, store.Usage{QuotaBytes: 2 << 30, FileBytes: file, UsedBytes: file}, true},
	} {
		got := usageOf(&clientv3.StatusResponse{DbSizeQuota: c.reported, DbSize: file, DbSizeInUse: file})
		if got != c.want || got.Full() != c.full {
			t.Errorf("%s: %+v, full %t", name, got, got.Full())
		}
		if got.NoSpace = true; !got.Full() {
			t.Errorf("%s, and the alarm is raised: not full", name)
		}
	}
}
