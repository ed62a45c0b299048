package etcdlog_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"millwright/store"
	"millwright/store/etcdlog"
)

// BenchmarkAppend measures appends to the embedded, fsynced etcd: records of 1 KiB that each expect and advance
// an aggregate of their own, by so many callers at once. "writers" are clients that contend for the head, as
// five services in five processes do; with one, all callers share a Log, as in `millwright all`.
func BenchmarkAppend(b *testing.B) {
	for _, c := range []struct{ appenders, writers int }{{1, 1}, {16, 1}, {256, 1}, {5, 5}, {16, 5}, {256, 5}} {
		b.Run(fmt.Sprintf("appenders=%d/writers=%d", c.appenders, c.writers), func(b *testing.B) {
			server := startEtcd(b)
			var logs []*etcdlog.Log
			for range c.writers {
				client := server.Client
				if c.writers > 1 {
					client = dial(b, server.Endpoints[0])
				}
				logs = append(logs, openLog(b, client, "bench"))
			}
			benchmarkAppend(b, logs, c.appenders)
		})
	}
}

func benchmarkAppend(b *testing.B, logs []*etcdlog.Log, appenders int) {
	payload := bytes.Repeat([]byte("x"), 1024)
	latencies := make([][]time.Duration, appenders)
	var wg sync.WaitGroup
	b.ResetTimer()
	for i := range appenders {
		wg.Go(func() {
			aggregate, at := fmt.Sprintf("node/%d", i), uint64(0)
			for range b.N/appenders + 1 { // the same for each: who starves is waited for
				begun := time.Now()
				r, err := logs[i%len(logs)].Append(context.Background(), store.Draft{
					Time: begun, Service: "bench", Mode: "active", Kind: 20, Payload: payload,
					Expects: map[string]uint64{aggregate: at}, Advances: []string{aggregate},
				})
				if err != nil {
					b.Error(err)
					return
				}
				at = r.Seq
				latencies[i] = append(latencies[i], time.Since(begun))
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	all := slices.Concat(latencies...)
	slices.Sort(all)
	b.ReportMetric(float64(len(all))/b.Elapsed().Seconds(), "records/s")
	b.ReportMetric(quantile(all, 50), "p50-ms")
	b.ReportMetric(quantile(all, 99), "p99-ms")
}

func quantile(sorted []time.Duration, percent int) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return float64(sorted[len(sorted)*percent/100]) / float64(time.Millisecond)
}
