package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright/services/console/trust"
	"millwright/tools/stack"
)

const (
	loadReaders, loadTails = 200, 50
	// loadPeople are whose tokens the readers have: one person may ask only so often.
	loadPeople = 25
	// loadRounds are measured without and with readers in turn, so that what the machine does meanwhile is in
	// both.
	loadRounds = 3
	// loadMore is how much longer decisions may take with readers, in percent; loadMemory what the console
	// may take.
	loadMore   = 10
	loadMemory = 300 << 20
)

// measureLoad times pods like measureLatency, without anybody who reads and with 200 readers and 50 tails at
// the console, which is a process of its own beside the five. The readers are a process too, which leaves the
// CPU to all others: in a real installation they sit at machines of their own.
func measureLoad(ctx context.Context, b *bench) (figures []figure, err error) {
	r, err := startRig(ctx, b, "load", func(o *stack.Options) { o.FiveProcesses, o.Console = true, true })
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.grow(ctx, b.nodes); err != nil {
		return nil, fmt.Errorf("make %d nodes: %w", b.nodes, err)
	}
	tokens, err := r.people(ctx, loadPeople)
	if err != nil {
		return nil, err
	}
	console := r.stack.Process("console").Pid()
	before := residentMemory(console)
	var quiet, read []span
	var sum got
	for round := range loadRounds {
		if err := pause(ctx, settleTime); err != nil {
			return nil, err
		}
		spans, err := r.timePods(ctx, fmt.Sprintf("quiet-%d", round), b.pods)
		if err != nil {
			return nil, fmt.Errorf("without readers: %w", err)
		}
		quiet = append(quiet, spans...)
		if spans, err = r.timeAmong(ctx, &sum, tokens, fmt.Sprintf("read-%d", round), b.pods); err != nil {
			return nil, fmt.Errorf("with readers: %w", err)
		}
		read = append(read, spans...)
	}
	return loadFigures(quiet, read, sum, before, console), nil
}

func loadFigures(quiet, read []span, c got, before int64, console int) []figure {
	without, with := decided(quiet), decided(read)
	most := quantile(without, 99) * (100 + loadMore) / 100
	at := "pod unschedulable → NodeClaim, less the batching window, "
	return []figure{
		{name: at + "nobody reads", measured: shape(without)},
		{name: fmt.Sprintf("%s%d readers and %d tails at the console", at, loadReaders, loadTails), measured: shape(with),
			aim: fmt.Sprintf("p99 ≤ %s: %d %% more", duration(most), loadMore), verdict: verdictOf(quantile(with, 99) <= most)},
		{name: "console: answers meanwhile", measured: fmt.Sprintf("%d answers, %d told to come again, %d records to tails, %d errors", c.Answered, c.Refused, c.Records, c.Failed),
			aim: "no errors", verdict: verdictOf(c.Answered > 0 && c.Records > 0 && c.Failed == 0)},
		{name: "memory: console", measured: fmt.Sprintf("%s before, highest %s", mebibytes(before), mebibytes(peakMemory(console))),
			aim: "≤ " + mebibytes(loadMemory), verdict: verdictOf(peakMemory(console) <= loadMemory)},
	}
}

// decided is how long each pod waited for the decision on it.
func decided(spans []span) (list []time.Duration) {
	for _, s := range spans {
		list = append(list, s.claimed.Sub(s.unschedulable)-batchingWindow)
	}
	return list
}

// people makes accounts that may read, and returns a token of each.
func (r *rig) people(ctx context.Context, n int) (tokens []string, err error) {
	seconds := int64(3600)
	for i := range n {
		meta := metav1.ObjectMeta{Name: fmt.Sprintf("reader-%d", i)}
		if _, err := r.kube.CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{}); err != nil {
			return nil, fmt.Errorf("make account %s: %w", meta.Name, err)
		}
		if _, err := r.kube.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: meta,
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "millwright-viewer"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: meta.Name, Namespace: namespace}}}, metav1.CreateOptions{}); err != nil {
			return nil, fmt.Errorf("bind account %s: %w", meta.Name, err)
		}
		token, err := r.kube.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, meta.Name,
			&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}, metav1.CreateOptions{})
		if err != nil {
			return nil, fmt.Errorf("make token of %s: %w", meta.Name, err)
		}
		tokens = append(tokens, token.Status.Token)
	}
	return tokens, nil
}

// timeAmong times pods while readers and tails are at the console.
func (r *rig) timeAmong(ctx context.Context, sum *got, tokens []string, prefix string, n int) (spans []span, err error) {
	namespace, name := r.stack.ConsoleTrust()
	anchors, err := trust.Read(ctx, r.kube, namespace, name)
	if err != nil {
		return nil, fmt.Errorf("learn by which certificate the console is known: %w", err)
	}
	readers, err := startReaders(ctx, visit{URL: r.stack.ConsoleURL(), Trust: anchors, Tokens: tokens, Readers: loadReaders, Tails: loadTails})
	if err != nil {
		return nil, err
	}
	defer func() {
		g, leaveErr := readers.leave()
		sum.add(g)
		err = errors.Join(err, leaveErr)
	}()
	return r.timePods(ctx, prefix, n)
}
