//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// loadEvery is how long the workload stays as it is: two cores are busy with that, and not short of time
	// for the rest. loadWatch is how often its pods are looked at.
	loadEvery = 20 * time.Second
	loadWatch = time.Second
	// waitMax is how long a pod may wait for its node, whatever happens to Millwright meanwhile.
	waitMax = 90 * time.Second
)

// load scales the workload up and down until it is stopped.
type load struct {
	n     *node
	stop  context.CancelFunc
	ended chan error
	// worst wait of a pod from its creation until it ran.
	worst time.Duration
	pods  map[string]bool
}

func startLoad(ctx context.Context, n *node) *load {
	ctx, stop := context.WithCancel(ctx)
	l := &load{n: n, stop: stop, ended: make(chan error, 1), pods: map[string]bool{}}
	go func() { l.ended <- l.run(ctx) }()
	return l
}

// finish stops the load and says how long pods had to wait.
func (l *load) finish() error {
	l.stop()
	if err := <-l.ended; err != nil {
		return err
	}
	l.n.Out.Say("%d pods came meanwhile; the longest wait was %s", len(l.pods), l.worst.Round(time.Second))
	return nil
}

func (l *load) run(ctx context.Context) error {
	sizes := []int{14, 2, 20, 5, 26, 1, 17}
	next := time.Now()
	for i := 0; ; {
		if time.Now().After(next) {
			if err := l.n.Scale(ctx, sizes[i%len(sizes)], i%3); err != nil && ctx.Err() == nil {
				return err
			}
			i, next = i+1, time.Now().Add(loadEvery)
		}
		if err := l.look(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(loadWatch):
		}
	}
}

// look fails if a pod waits for too long.
func (l *load) look(ctx context.Context) error {
	list, err := l.n.Kube.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		return errors.Join(errors.New("list pods"), err)
	}
	for _, p := range list.Items {
		l.pods[p.Name] = true
		if p.DeletionTimestamp != nil || p.Status.Phase != corev1.PodPending {
			continue
		}
		wait := time.Since(p.CreationTimestamp.Time)
		l.worst = max(l.worst, wait)
		if wait > waitMax {
			return fmt.Errorf("pod %s has waited for a node for %s", p.Name, wait.Round(time.Second))
		}
	}
	return nil
}
