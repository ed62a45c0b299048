//go:build linux

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// exitKilled is the exit code of a container that was ended by SIGKILL.
const exitKilled = 137

// watchKilled notes, until the returned function is called, which containers of the release had to be killed,
// because they did not end within the grace period of their pod.
func (n *node) watchKilled(ctx context.Context) (end func() error, err error) {
	w, err := n.Kube.CoreV1().Pods(namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("watch pods: %w", err)
	}
	killed, done := map[string]bool{}, sync.WaitGroup{}
	done.Go(func() {
		for event := range w.ResultChan() {
			if pod, ok := event.Object.(*corev1.Pod); ok && event.Type != watch.Added {
				for _, name := range killedIn(pod) {
					killed[name] = true
				}
			}
		}
	})
	return func() error {
		w.Stop()
		done.Wait()
		var names []string
		for name := range killed {
			names = append(names, name)
		}
		if slices.Sort(names); len(names) > 0 {
			return fmt.Errorf("containers did not end when they were told to, and were killed: %s", strings.Join(names, ", "))
		}
		return nil
	}, nil
}

// killedIn returns the containers of a pod that is being deleted that were killed, as POD/CONTAINER.
func killedIn(pod *corev1.Pod) (names []string) {
	if pod.DeletionTimestamp == nil {
		return nil
	}
	for _, s := range pod.Status.ContainerStatuses {
		if t := s.State.Terminated; t != nil && t.ExitCode == exitKilled {
			names = append(names, pod.Name+"/"+s.Name)
		}
	}
	return names
}
