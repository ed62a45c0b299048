package kube_test

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"

	"millwright/events/membus"
	"millwright/services/watcher"
	"millwright/services/watcher/kube"
	"millwright/tools/clustertest"
)

// TestAClusterWithoutNodeOverlays: a CRD that came with a later version, and is not installed, holds nothing
// up.
func TestAClusterWithoutNodeOverlays(t *testing.T) {
	cluster := clustertest.Start(t)
	client, err := kubernetes.NewForConfig(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	api := client.CoreV1().RESTClient()
	if err := api.Delete().AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nodeoverlays.karpenter.sh").Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	for limit := time.After(90 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		if apierrors.IsNotFound(api.Get().AbsPath("/apis/karpenter.sh/v1alpha1/nodeoverlays").Do(t.Context()).Error()) {
			break
		}
		select {
		case <-limit:
			t.Fatal("NodeOverlays are still served")
		default:
		}
	}
	source, err := kube.New(cluster.Config, zerolog.New(zerolog.NewTestWriter(t)))
	if err != nil {
		t.Fatal(err)
	}
	bus := membus.NewBus()
	w, err := watcher.New(watcher.Config{
		Stream: bus.Connect(1024), Kube: source, LogID: "0123456789abcdef", HeartbeatEvery: 100 * time.Millisecond, Registerer: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	l := follow(ctx, bus.Connect(1))
	l.until(t, "the resync has ended", func(l *live) bool { return l.ends == 1 })
	beats := 0
	l.until(t, "a heartbeat has come", func(l *live) bool { beats = l.beats; return beats > 0 })
	l.until(t, "heartbeats go on", func(l *live) bool { return l.beats > beats+20 })
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
