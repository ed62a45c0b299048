package kube

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// No heartbeat says that all is seen while the API server has yet to begin the next watch.
func TestAWatchThatIsNotBegunIsNoWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := make(chan struct{})
		w := &watched{kind: kinds[0], listed: true, lister: &cache.ListWatch{
			ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
				return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}}, nil
			},
			WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
				<-begun
				return watch.NewFake(), nil
			},
		}}
		go func() { _, _ = w.WatchWithContext(t.Context(), metav1.ListOptions{ResourceVersion: "7"}) }()
		time.Sleep(probeTimeout / 2)
		if err := w.state(); err != nil {
			t.Errorf("at first: %v", err)
		}
		time.Sleep(probeTimeout)
		if w.state() == nil {
			t.Error("a watch that has not begun counts as one")
		}
		close(begun)
		synctest.Wait()
		if err := w.state(); err != nil {
			t.Errorf("once it has begun: %v", err)
		}
	})
}
