package kube

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// A server that takes requests and does not answer them holds up nobody for ever, and one whose answer only
// takes long to end is waited for.
func TestARequestThatIsNotAnswered(t *testing.T) {
	const limit = 300 * time.Millisecond
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/nodes") || r.Method == http.MethodPost {
			_, _ = io.Copy(io.Discard, r.Body) // until then nobody notices that the client has gone
			<-r.Context().Done()
			return
		}
		w.Header().Set("Content-Type", "application/json")
		parts := []string{`{"kind":"PodList","apiVersion":"v1",`, `"metadata":{"resourceVersion":"1"}}`}
		if r.URL.Query().Get("watch") != "" {
			parts = []string{"", `{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}}`}
		}
		for i, part := range parts {
			select {
			case <-r.Context().Done():
			case <-time.After(time.Duration(i) * 3 * limit):
			}
			w.Write([]byte(part))
			w.(http.Flusher).Flush()
		}
	}))
	defer server.Close()
	cfg := &rest.Config{Host: server.URL}
	endUnanswered(cfg, limit, limit)
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	core, ctx := c.Core.CoreV1(), t.Context()
	for name, request := range map[string]func() error{
		"list":  func() error { _, err := core.Nodes().List(ctx, metav1.ListOptions{}); return err },
		"watch": func() error { _, err := core.Nodes().Watch(ctx, metav1.ListOptions{}); return err },
		"event": func() error {
			_, err := core.Events("").CreateWithEventNamespaceWithContext(ctx, &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default"}})
			return err
		},
	} {
		began := time.Now()
		if err := request(); !errors.Is(err, errUnanswered) || Classify(err) != Transient {
			t.Errorf("%s: %v", name, err)
		}
		if took := time.Since(began); took > 30*limit {
			t.Errorf("%s ended after %s", name, took)
		}
	}
	if list, err := core.Pods("").List(ctx, metav1.ListOptions{}); err != nil || list.ResourceVersion != "1" {
		t.Errorf("a list that takes long to end: %v, %v", list, err)
	}
	stream, err := core.Pods("").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Stop()
	if e, ok := <-stream.ResultChan(); !ok || e.Object.(*corev1.Pod).Name != "a" {
		t.Errorf("a watch on which nothing comes for long: %v", e)
	}
}

// Who gives up a request gets that error, not another's.
func TestARequestThatIsGivenUp(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer server.Close()
	cfg := &rest.Config{Host: server.URL}
	EndUnanswered(cfg)
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.NodeClaims.Get(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errUnanswered) {
		t.Error(err)
	}
}

// late answers at the very moment at which it is given up.
type late struct{ limit time.Duration }

func (l late) RoundTrip(*http.Request) (*http.Response, error) {
	time.Sleep(l.limit)
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// An answer that comes as it is given up is an answer or an error, never neither.
func TestAnAnswerAtTheLastMoment(t *testing.T) {
	for range 1000 {
		synctest.Test(t, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://a/", nil)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := answered{late{time.Second}, time.Second, time.Second}.RoundTrip(r)
			if (answer == nil) == (err == nil) {
				t.Fatalf("%v, %v", answer, err)
			}
			if answer != nil {
				_ = answer.Body.Close()
			}
		})
	}
}
