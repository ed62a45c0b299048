package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// watcher follows the cluster as a user would with kubectl get -w, and takes times.
type watcher struct {
	ui     *ui
	cancel context.CancelFunc

	mu    sync.Mutex
	pods  map[string]podTimes
	nodes map[string]bool
	claim map[string]bool
	// nodesSeen counts all there were.
	nodesSeen map[string]bool
	podWaits  []time.Duration
}

// podTimes of one pod: zero while it has not happened.
type podTimes struct{ unschedulable, running time.Time }

func startWatcher(ctx context.Context, cfg *rest.Config, ui *ui) (*watcher, error) {
	core, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	dyn, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &watcher{ui: ui, cancel: cancel, pods: map[string]podTimes{}, nodes: map[string]bool{}, claim: map[string]bool{}, nodesSeen: map[string]bool{}}
	typed := informers.NewSharedInformerFactoryWithOptions(core, 0, informers.WithNamespace("default"))
	all := informers.NewSharedInformerFactory(core, 0)
	custom := dynamicinformer.NewDynamicSharedInformerFactory(dyn, 0)
	claims := custom.ForResource(schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodeclaims"}).Informer()
	for informer, handler := range map[cache.SharedIndexInformer]cache.ResourceEventHandler{
		typed.Core().V1().Pods().Informer(): handle(w.pod, w.podGone),
		all.Core().V1().Nodes().Informer():  handle(w.node, w.nodeGone),
		claims:                              handle(func(o any) { w.setClaim(o, true) }, func(o any) { w.setClaim(o, false) }),
	} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			cancel()
			return nil, fmt.Errorf("watch: %w", err)
		}
	}
	for _, start := range []func(<-chan struct{}){typed.Start, all.Start, custom.Start} {
		start(ctx.Done())
	}
	return w, nil
}

func handle(upsert, gone func(any)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{AddFunc: upsert, UpdateFunc: func(_, o any) { upsert(o) }, DeleteFunc: gone}
}

func (w *watcher) stop() { w.cancel() }

func (w *watcher) pod(o any) {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.pods[pod.Name]
	if t.unschedulable.IsZero() && unschedulable(pod) {
		t.unschedulable = time.Now()
	}
	if t.running.IsZero() && pod.Status.Phase == corev1.PodRunning {
		t.running = time.Now()
		if !t.unschedulable.IsZero() {
			w.podWaits = append(w.podWaits, t.running.Sub(t.unschedulable))
		}
	}
	w.pods[pod.Name] = t
}

func unschedulable(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
			return true
		}
	}
	return false
}

func (w *watcher) podGone(o any) {
	if name, ok := objectName(o); ok {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.pods, name)
	}
}

func (w *watcher) node(o any) {
	node, ok := o.(*corev1.Node)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodesSeen[node.Name] = true
	w.nodes[node.Name] = true
}

func (w *watcher) nodeGone(o any) {
	if name, ok := objectName(o); ok {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.nodes, name)
		w.ui.line(dim, "node", "%s is gone", name)
	}
}

func (w *watcher) setClaim(o any, there bool) {
	if name, ok := objectName(o); ok {
		w.mu.Lock()
		defer w.mu.Unlock()
		if there {
			w.claim[name] = true
		} else {
			delete(w.claim, name)
		}
	}
}

func objectName(o any) (string, bool) {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(o)
	if err != nil {
		return "", false
	}
	return key[strings.LastIndex(key, "/")+1:], true
}

func (w *watcher) running() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, t := range w.pods {
		if !t.running.IsZero() {
			n++
		}
	}
	return n
}

func (w *watcher) nodeCount() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.nodes)
}

func (w *watcher) claimCount() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.claim)
}

// describe says what is there, for the message of a wait that failed.
func (w *watcher) describe() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return fmt.Sprintf("pods %d, nodes %d, NodeClaims %d", len(w.pods), len(w.nodes), len(w.claim))
}
