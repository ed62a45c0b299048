package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"millwright/tools/ec2sim/simclient"
	"millwright/tools/stack"
)

const namespace = "default"

var (
	poolsGVR   = schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodepools"}
	claimsGVR  = schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodeclaims"}
	classesGVR = schema.GroupVersionResource{Group: "karpenter.k8s.aws", Version: "v1", Resource: "ec2nodeclasses"}
)

// manifests make every pod of 1.2 CPUs take a node of its own, and keep nodes.
var manifests = []struct {
	resource schema.GroupVersionResource
	text     string
}{
	{classesGVR, `
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: KarpenterNodeRole-` + stack.ClusterName + `
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: ` + stack.ClusterName + `}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: ` + stack.ClusterName + `}}]
`},
	{poolsGVR, `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      requirements:
        - {key: kubernetes.io/arch, operator: In, values: [amd64]}
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
        - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}
        - {key: karpenter.k8s.aws/instance-cpu, operator: In, values: ["2"]}
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: Never}
`},
}

// watchPause is between the end of a watch and the next.
const watchPause = 20 * time.Millisecond

// rig is the stack with clients and watches on it.
type rig struct {
	stack  *stack.Stack
	kube   kubernetes.Interface
	dyn    dynamic.Interface
	ec2    *simclient.Client
	pods   *sightings
	claims *sightings
	seen   uint64
	// endWatches ends what follows pods and claims.
	endWatches func()
}

// startRig starts the stack in an empty directory of this name, applies the manifests and watches. change may
// alter the stack's options.
func startRig(ctx context.Context, b *bench, name string, change ...func(*stack.Options)) (r *rig, err error) {
	dir := filepath.Join(b.dir, name)
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	options := stack.Options{Dir: dir, BinDir: b.bin,
		EC2SimArgs: []string{"--pending-delay", "200ms", "--boot-delay", "300ms", "--shutting-down-delay", "300ms"}}
	for _, c := range change {
		c(&options)
	}
	s, err := stack.Start(ctx, options)
	if err != nil {
		return nil, err
	}
	r = &rig{stack: s, ec2: simclient.New(s.EC2Endpoint()), pods: newSightings(), claims: newSightings(), endWatches: func() {}}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	if r.kube, err = kubernetes.NewForConfig(s.Config()); err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	if r.dyn, err = dynamic.NewForConfig(s.Config()); err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	for _, m := range manifests {
		if err := r.apply(ctx, m.resource, m.text); err != nil {
			return nil, err
		}
	}
	r.watch(ctx)
	return r, nil
}

// close ends the watches and the stack.
func (r *rig) close() error {
	r.endWatches()
	return r.stack.Stop()
}

// millwright is the process id of `millwright all`.
func (r *rig) millwright() int { return r.stack.Process("millwright").Pid() }

func (r *rig) watch(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() {
		r.pods.follow(ctx, func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return r.kube.CoreV1().Pods(namespace).Watch(ctx, o)
		})
	})
	group.Go(func() { r.claims.follow(ctx, r.dyn.Resource(claimsGVR).Watch) })
	r.endWatches = func() { cancel(); group.Wait() }
}

func (r *rig) apply(ctx context.Context, to schema.GroupVersionResource, manifest string) error {
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &obj.Object); err != nil {
		return fmt.Errorf("parse manifest: %w", err)
	}
	data, err := obj.MarshalJSON()
	if err != nil {
		return fmt.Errorf("encode manifest: %w", err)
	}
	force := true
	if _, err := r.dyn.Resource(to).Patch(ctx, obj.GetName(), types.ApplyPatchType, data, metav1.PatchOptions{FieldManager: "bench", Force: &force}); err != nil {
		return fmt.Errorf("apply %s %s: %w", obj.GetKind(), obj.GetName(), err)
	}
	return nil
}

// grow creates as many pods and waits until all run.
func (r *rig) grow(ctx context.Context, n int) error {
	for i := range n {
		if err := r.createPod(ctx, fmt.Sprintf("base-%d", i)); err != nil {
			return err
		}
	}
	for i := range n {
		if _, err := r.pods.await(ctx, fmt.Sprintf("base-%d", i), running); err != nil {
			return fmt.Errorf("wait until pod base-%d runs: %w", i, err)
		}
	}
	return nil
}

func (r *rig) createPod(ctx context.Context, name string) error {
	_, err := r.kube.CoreV1().Pods(namespace).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": strings.TrimRight(name, "-0123456789")}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "c", Image: "registry.example/pause:1",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("1200m"), corev1.ResourceMemory: resource.MustParse("256Mi"),
			}},
		}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create pod %s: %w", name, err)
	}
	return nil
}

// state of an object that is waited for.
type state string

const (
	exists        state = "exists"
	unschedulable state = "unschedulable"
	running       state = "running"
	evicting      state = "evicting"
)

// sightings remember when each object was first seen in each state.
type sightings struct {
	mu      sync.Mutex
	changed chan struct{}
	at      map[string]map[state]time.Time
}

func newSightings() *sightings {
	return &sightings{changed: make(chan struct{}), at: map[string]map[state]time.Time{}}
}

// follow notes what a watch shows until ctx ends. The API server ends watches when it likes; the next one
// begins with what there is.
func (s *sightings) follow(ctx context.Context, open func(context.Context, metav1.ListOptions) (watch.Interface, error)) {
	for ; ctx.Err() == nil; _ = pause(ctx, watchPause) {
		w, err := open(ctx, metav1.ListOptions{})
		if err != nil {
			continue
		}
		for e := range w.ResultChan() {
			now := time.Now()
			if o, ok := e.Object.(metav1.Object); ok {
				s.noteStates(o.GetName(), now, statesOf(e.Object)...)
			}
		}
		w.Stop()
	}
}

func statesOf(object any) []state {
	list := []state{exists}
	p, ok := object.(*corev1.Pod)
	if !ok {
		return list
	}
	if p.Status.Phase == corev1.PodRunning {
		list = append(list, running)
	}
	for _, c := range p.Status.Conditions {
		switch {
		case c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable:
			list = append(list, unschedulable)
		case c.Type == corev1.DisruptionTarget && c.Reason == "EvictionByEvictionAPI":
			list = append(list, evicting)
		}
	}
	return list
}

func (s *sightings) noteStates(name string, now time.Time, states ...state) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at[name] == nil {
		s.at[name] = map[state]time.Time{}
	}
	for _, x := range states {
		if _, known := s.at[name][x]; !known {
			s.at[name][x] = now
		}
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// await returns when the object was first seen in the state.
func (s *sightings) await(ctx context.Context, name string, want state) (time.Time, error) {
	for {
		s.mu.Lock()
		at, ok := s.at[name][want]
		changed := s.changed
		s.mu.Unlock()
		if ok {
			return at, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return at, fmt.Errorf("%s is not %s: %w", name, want, context.Cause(ctx))
		}
	}
}

// awaitNew returns the first object that is not among the known ones.
func (s *sightings) awaitNew(ctx context.Context, known map[string]bool) (string, time.Time, error) {
	for {
		s.mu.Lock()
		changed := s.changed
		name, first := "", time.Time{}
		for n, states := range s.at {
			if at := states[exists]; !known[n] && (name == "" || at.Before(first)) {
				name, first = n, at
			}
		}
		s.mu.Unlock()
		if name != "" {
			return name, first, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return "", first, context.Cause(ctx)
		}
	}
}

// count is how many objects were seen in the state.
func (s *sightings) count(want state) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, states := range s.at {
		if _, ok := states[want]; ok {
			n++
		}
	}
	return n
}

func (s *sightings) names() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := make(map[string]bool, len(s.at))
	for n := range s.at {
		names[n] = true
	}
	return names
}
