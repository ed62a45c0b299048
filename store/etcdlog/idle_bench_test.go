package etcdlog_test

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"millwright/store"
	"millwright/store/etcdlog"
)

// BenchmarkIdleProcesses measures what ten processes cost that do nothing but lead or stand by, follow the
// log and read the stop switch: processor time of etcd and of them together, and password checks, per second.
// b.N is in tenths of a second.
func BenchmarkIdleProcesses(b *testing.B) {
	for _, password := range []bool{false, true} {
		b.Run(fmt.Sprintf("password=%t", password), func(b *testing.B) { benchmarkIdle(b, password) })
	}
}

func benchmarkIdle(b *testing.B, password bool) {
	endpoint, security := startSecured(b)
	if password {
		setUpUsers(b, dialSecured(b, endpoint, security), "/millwright/prod/")
		security.Username, security.Password = "millwright", "m-secret"
	}
	ctx, stop := context.WithCancel(context.Background())
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	for n := range 10 {
		client := dialSecured(b, endpoint, security)
		log, err := etcdlog.Open(ctx, etcdlog.Config{Client: client, Cluster: "prod"})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = log.Close() })
		group.Go(func() { _ = log.Watch(ctx, 1, func(store.Record) error { return nil }) })
		group.Go(func() {
			for ctx.Err() == nil {
				_, _, _ = log.Switch(ctx, "stop")
				time.Sleep(250 * time.Millisecond)
			}
		})
		group.Go(func() { // two processes for each of five services
			l, err := etcdlog.NewElector(client, "prod").Campaign(ctx, store.Candidacy{Service: fmt.Sprint("service-", n%5), Identity: fmt.Sprint(n), Deposable: n%5 > 1})
			if err == nil {
				<-ctx.Done()
				_ = l.Resign(context.Background())
			}
		})
	}
	time.Sleep(time.Second) // they have settled
	checked, began, cpu := counted(b, "Authenticate", "grpc_server_started_total"), time.Now(), processorTime()
	b.ResetTimer()
	time.Sleep(time.Duration(b.N) * 100 * time.Millisecond)
	took := time.Since(began).Seconds()
	b.ReportMetric((processorTime()-cpu).Seconds()*1000/took, "cpu-ms/s")
	b.ReportMetric((counted(b, "Authenticate", "grpc_server_started_total")-checked)/took, "passwords/s")
}

func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
