package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"millwright/events"
	"millwright/events/natsbus"
	natsembedded "millwright/events/natsbus/embedded"
	pt "millwright/planner/plannertest"
	"millwright/store/etcdlog"
	etcdembedded "millwright/store/etcdlog/embedded"
)

// observed is a data directory as `millwright all` leaves it when it stops: an empty log, and a stream with
// one resync.
func observed(t *testing.T, objects ...any) string {
	t.Helper()
	dir := t.TempDir()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	etcd, err := etcdembedded.Start(filepath.Join(dir, "etcd"))
	check(err)
	defer etcd.Close()
	client, err := etcdlog.Dial(etcdlog.DialConfig{Endpoints: etcd.Endpoints})
	check(err)
	defer client.Close()
	log, err := etcdlog.Open(t.Context(), etcdlog.Config{Client: client, Cluster: "test"})
	check(err)
	defer log.Close()
	nats, err := natsembedded.Start(filepath.Join(dir, "nats"))
	check(err)
	defer nats.Stop(t.Context())
	stream, err := natsbus.Open(t.Context(), natsbus.Config{Server: nats, Cluster: "test", LogID: log.ID(), Name: "watcher"})
	check(err)
	defer stream.Close()
	counter := uint64(0)
	send := func(o events.Observation) {
		counter++
		o.Epoch, o.Counter, o.ObservedAt = 1, counter, time.Now()
		data, err := events.Encode(o)
		check(err)
		check(stream.Publish(t.Context(), data))
	}
	send(events.Observation{Op: events.OpResyncBegin})
	for _, o := range objects {
		if ref, ok := o.(*events.CatalogRef); ok {
			o, err = events.StoreCatalog(t.Context(), stream.Blobs(), ref.Catalog)
			check(err)
		}
		send(pt.Observe(o))
	}
	send(events.Observation{Op: events.OpResyncEnd})
	send(events.Observation{Op: events.OpHeartbeat, Object: &events.Heartbeat{}})
	check(stream.Flush(t.Context()))
	return dir
}

// From a data directory to the answer, through the real log and the real stream.
func TestPlanOnWhatASystemSees(t *testing.T) {
	dir := observed(t, append(pt.WithCatalogue(), pt.Pool("default"), pt.Pod("seen", pt.Requests("cpu", "1500m"), pt.Unschedulable()))...)
	more := filepath.Join(t.TempDir(), "more.yaml")
	err := os.WriteFile(more, []byte("apiVersion: v1\nkind: Pod\nmetadata: {name: asked, namespace: shop}\nspec: {containers: [{name: c, resources: {requests: {cpu: 3}}}]}\n"), 0o644)
	if err != nil {
		t.Fatal(err)
	}
	cmd := command()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"plan", "--server", "--cluster-name", "test", "--data-dir", dir, "-f", more})
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"shop/asked", "/seen", "2 of 2 pods placed", "of the cluster as seen at"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the plan lacks %q:\n%s", want, out.String())
		}
	}
}
