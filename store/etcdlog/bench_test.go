package etcdlog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"millwright/store"
	"millwright/store/etcdlog"
)

// BenchmarkAppend measures appends to the embedded, fsynced etcd: records of 1 KiB that each expect and
// advance an aggregate of their own, by a number of callers at once. "writers" are clients that contend for
// the head, as five services in five processes do; with one writer, all callers share a Log, as in
// `millwright all`.
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
			before := revision(b, server.Client)
			benchmarkAppend(b, logs, c.appenders)
			b.ReportMetric(float64(b.N)/float64(revision(b, server.Client)-before), "records/write")
		})
	}
}

// revision of etcd, which every write raises.
func revision(b *testing.B, c *clientv3.Client) int64 {
	resp, err := c.Get(b.Context(), "revision")
	if err != nil {
		b.Fatal(err)
	}
	return resp.Header.Revision
}

var benchPayload = bytes.Repeat([]byte("x"), 1024)

func benchmarkAppend(b *testing.B, logs []*etcdlog.Log, appenders int) {
	latencies := make([][]time.Duration, appenders)
	var wg sync.WaitGroup
	b.ResetTimer()
	for i := range appenders {
		wg.Go(func() {
			aggregate, at := fmt.Sprintf("node/%d", i), uint64(0)
			for range b.N/appenders + 1 { // the same for each: who starves is waited for
				begun := time.Now()
				r, err := logs[i%len(logs)].Append(context.Background(), benchDraft(aggregate, at))
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

// BenchmarkNodeStarts measures whether anybody starves while 500 nodes start at once: lifecycle appends five
// records for each claim, all claims at the same time; provisioner and disruptor decide all the while on the
// one pool of those nodes, each 100 ms after its last decision, and a decision that lost is taken anew. Each
// has a client of its own.
func BenchmarkNodeStarts(b *testing.B) {
	const claims, records = 500, 5
	server := startEtcd(b)
	open := func() *etcdlog.Log { return openLog(b, dial(b, server.Endpoints[0]), "bench") }
	lifecycle, provisioner, disruptor := open(), open(), open()
	b.ResetTimer()
	for n := range b.N {
		started := make(chan struct{})
		var deciders, starts sync.WaitGroup
		counts := [2]decisions{}
		for i, log := range []*etcdlog.Log{provisioner, disruptor} {
			deciders.Go(func() { counts[i] = decide(b, log, started) })
		}
		for i := range claims {
			starts.Go(func() {
				aggregate, at := fmt.Sprintf("claim/%d-%d", n, i), uint64(0)
				for range records {
					r, err := lifecycle.Append(context.Background(), benchDraft(aggregate, at))
					if err != nil {
						b.Error(err)
						return
					}
					at = r.Seq
				}
			})
		}
		starts.Wait()
		close(started)
		deciders.Wait()
		for i, name := range []string{"provisioner", "disruptor"} {
			slices.Sort(counts[i].took)
			b.ReportMetric(float64(len(counts[i].took)), name+"-decisions")
			b.ReportMetric(quantile(counts[i].took, 99), name+"-p99-ms")
			b.ReportMetric(float64(counts[i].lostMax), name+"-lost-in-a-row")
		}
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/500-starts")
}

// decisions of one service: how long each took until it was stored, and the most losses in a row.
type decisions struct {
	took    []time.Duration
	lostMax int
}

// decide takes decisions on one pool until started is closed, and one at least. Each takes 10 ms of thought.
func decide(b *testing.B, log *etcdlog.Log, started <-chan struct{}) (d decisions) {
	for begun, lost := time.Now(), 0; ; {
		at, err := log.Aggregate(context.Background(), "pool/default")
		if err == nil {
			time.Sleep(10 * time.Millisecond)
			_, err = log.Append(context.Background(), benchDraft("pool/default", at))
		}
		if errors.Is(err, store.ErrConflict) {
			lost++
			d.lostMax = max(d.lostMax, lost)
			continue
		}
		if err != nil {
			b.Error(err)
			return d
		}
		d.took = append(d.took, time.Since(begun))
		select {
		case <-started:
			return d
		case <-time.After(100 * time.Millisecond):
		}
		begun, lost = time.Now(), 0
	}
}

func benchDraft(aggregate string, at uint64) store.Draft {
	return store.Draft{
		Time: time.Now(), Service: "bench", Mode: "active", Kind: 20, Payload: benchPayload,
		Expects: map[string]uint64{aggregate: at}, Advances: []string{aggregate},
	}
}

func quantile(sorted []time.Duration, percent int) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return float64(sorted[len(sorted)*percent/100]) / float64(time.Millisecond)
}
