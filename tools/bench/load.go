package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
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
	// loadPause is between two questions of a reader.
	loadPause = 2 * time.Second
	// loadRounds are measured without and with readers in turn, so that what the machine does meanwhile is in
	// both.
	loadRounds = 3
	// loadMore is how much longer decisions may take with readers, in percent; loadMemory what the console
	// may take.
	loadMore   = 10
	loadMemory = 300 << 20
)

// loadPaths are asked in turn: what the pages ask for.
var loadPaths = []string{"/status", "/nodes?limit=100", "/decisions?limit=50", "/timeline", "/pods", "/savings", "/commands", "/nodepools"}

// measureLoad times pods like measureLatency, without anybody who reads and with 200 readers and 50 tails at
// the console, which is a process of its own beside the five.
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
	var sum crowd
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
	return loadFigures(quiet, read, &sum, before, console), nil
}

func loadFigures(quiet, read []span, c *crowd, before int64, console int) []figure {
	without, with := decided(quiet), decided(read)
	most := quantile(without, 99) * (100 + loadMore) / 100
	at := "pod unschedulable → NodeClaim, less the batching window, "
	return []figure{
		{name: at + "nobody reads", measured: shape(without)},
		{name: fmt.Sprintf("%s%d readers and %d tails at the console", at, loadReaders, loadTails), measured: shape(with),
			aim: fmt.Sprintf("p99 ≤ %s: %d %% more", duration(most), loadMore), verdict: verdictOf(quantile(with, 99) <= most)},
		{name: "console: answers meanwhile", measured: fmt.Sprintf("%d answers, %d told to come again, %d records to tails, %d errors", c.answered.Load(), c.refused.Load(), c.records.Load(), c.failed.Load()),
			aim: "no errors", verdict: verdictOf(c.answered.Load() > 0 && c.records.Load() > 0 && c.failed.Load() == 0)},
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

// crowd counts what readers get.
type crowd struct{ answered, refused, records, failed atomic.Int64 }

// timeAmong times pods while readers and tails are at the console.
func (r *rig) timeAmong(ctx context.Context, c *crowd, tokens []string, prefix string, n int) ([]span, error) {
	client, err := r.consoleClient(ctx)
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	reading, leave := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer leave()
	answered := c.answered.Load()
	for i := range loadReaders {
		group.Go(func() { r.read(reading, client, c, tokens[i%len(tokens)], i) })
	}
	for i := range loadTails {
		group.Go(func() { r.follow(reading, client, c, tokens[i%len(tokens)]) })
	}
	limited, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for c.answered.Load()-answered < loadReaders { // all are there
		if err := pause(limited, 100*time.Millisecond); err != nil {
			return nil, fmt.Errorf("wait for the readers' first answers (%d so far): %w", c.answered.Load()-answered, err)
		}
	}
	return r.timePods(ctx, prefix, n)
}

// consoleClient trusts the certificate that the console has published.
func (r *rig) consoleClient(ctx context.Context) (*http.Client, error) {
	namespace, name := r.stack.ConsoleTrust()
	anchors, err := trust.Read(ctx, r.kube, namespace, name)
	if err != nil {
		return nil, fmt.Errorf("learn by which certificate the console is known: %w", err)
	}
	config := &tls.Config{RootCAs: anchors.Pool(), ServerName: anchors.ServerName, MinVersion: tls.VersionTLS12}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: config, MaxIdleConnsPerHost: loadReaders + loadTails}}, nil
}

func (r *rig) get(ctx context.Context, client *http.Client, token, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.stack.ConsoleURL()+"/api/v1"+path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	return client.Do(req)
}

// read asks one question after the other. Readers do not all ask the same at the same time.
func (r *rig) read(ctx context.Context, client *http.Client, c *crowd, token string, i int) {
	if pause(ctx, loadPause*time.Duration(i)/loadReaders) != nil {
		return
	}
	for n := i; ; n++ {
		c.count(ctx, func() (int, error) {
			res, err := r.get(ctx, client, token, loadPaths[n%len(loadPaths)])
			if err != nil {
				return 0, err
			}
			defer func() { _ = res.Body.Close() }()
			_, err = io.Copy(io.Discard, res.Body)
			return res.StatusCode, err
		})
		if pause(ctx, loadPause) != nil {
			return
		}
	}
}

// count one answer; what failed because the readers leave is none.
func (c *crowd) count(ctx context.Context, ask func() (int, error)) {
	status, err := ask()
	switch {
	case ctx.Err() != nil:
	case err == nil && status == http.StatusOK:
		c.answered.Add(1)
	case err == nil && (status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable):
		c.refused.Add(1)
	default:
		c.failed.Add(1)
	}
}

// follow reads a live tail, and begins another if it ends.
func (r *rig) follow(ctx context.Context, client *http.Client, c *crowd, token string) {
	for ctx.Err() == nil {
		c.count(ctx, func() (int, error) {
			res, err := r.get(ctx, client, token, "/decisions/tail")
			if err != nil {
				return 0, err
			}
			defer func() { _ = res.Body.Close() }()
			if res.StatusCode != http.StatusOK {
				return res.StatusCode, nil
			}
			return res.StatusCode, c.countRecords(res.Body)
		})
		if pause(ctx, loadPause) != nil {
			return
		}
	}
}

// countRecords reads a stream of server-sent events to its end.
func (c *crowd) countRecords(in io.Reader) error {
	buf := make([]byte, 32<<10)
	for {
		n, err := in.Read(buf)
		c.records.Add(int64(strings.Count(string(buf[:n]), "event: record")))
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
