package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// churnPods are created at a time, each for a node of its own.
	churnPods = 20
	// waveLimit bounds one wave of pods and nodes.
	waveLimit = 5 * time.Minute
)

// measureChurn runs the local stack while waves of pods come and go, and with them their nodes, one wave
// after the other, and reads the resident memory of `millwright all` after each. A wave takes seconds, so a
// quarter of an hour passes more nodes than most clusters see in hours.
func measureChurn(ctx context.Context, b *bench) (figures []figure, err error) {
	r, err := startRig(ctx, b, "churn")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	pid := r.millwright()
	for _, m := range manifests {
		if err := r.apply(ctx, m.resource, strings.Replace(m.text, "consolidateAfter: Never", "consolidateAfter: 0s", 1)); err != nil {
			return nil, err
		}
	}
	if err := pause(ctx, settleTime); err != nil {
		return nil, err
	}
	idle := residentMemory(pid)
	var after []int64
	began := time.Now()
	for time.Since(began) < b.churn {
		if err := r.wave(ctx, len(after)); err != nil {
			return churnFigures(time.Since(began), idle, after, peakMemory(pid)), fmt.Errorf("wave %d: %w", len(after)+1, err)
		}
		after = append(after, residentMemory(pid))
	}
	return churnFigures(time.Since(began), idle, after, peakMemory(pid)), nil
}

// wave creates pods, waits until they run, deletes them and waits until their nodes are gone.
func (r *rig) wave(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, waveLimit)
	defer cancel()
	for i := range churnPods {
		if err := r.createPod(ctx, fmt.Sprintf("churn-%d-%d", n, i)); err != nil {
			return err
		}
	}
	for i := range churnPods {
		if _, err := r.pods.await(ctx, fmt.Sprintf("churn-%d-%d", n, i), running); err != nil {
			return err
		}
	}
	now := int64(0)
	if err := r.kube.CoreV1().Pods(namespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{}); err != nil {
		return fmt.Errorf("delete pods: %w", err)
	}
	for {
		left, err := r.dyn.Resource(claimsGVR).List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("list nodeclaims: %w", err)
		}
		if len(left.Items) == 0 {
			return nil
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return fmt.Errorf("wait until %d nodes are gone: %w", len(left.Items), err)
		}
	}
}

// churnFigures compares the end with the first third: what is held for each node that came and went would
// show as growth in between.
func churnFigures(lasted time.Duration, idle int64, after []int64, peak int64) []figure {
	if len(after) == 0 {
		return nil
	}
	third, end := after[len(after)/3], after[len(after)-1]
	return []figure{{
		name: fmt.Sprintf("memory: millwright all, after %s of churn", lasted.Round(time.Second)), aim: "≤ 250 MiB",
		measured: fmt.Sprintf("%s after %d nodes came and went; idle before %s, after a third %s, highest %s", mebibytes(end), len(after)*churnPods,
			mebibytes(idle), mebibytes(third), mebibytes(peak)),
		verdict: verdictOf(peak > 0 && peak <= memoryAim),
	}}
}
