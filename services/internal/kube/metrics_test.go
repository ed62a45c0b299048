package kube

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// What a request is about is read out of its path, as Karpenter does it.
func TestPathsTellWhatIsAsked(t *testing.T) {
	for request, want := range map[string]string{
		"GET /api/v1/pods":                                                 "LIST  v1 pods ",
		"GET /api/v1/namespaces/default/pods":                              "LIST  v1 pods ",
		"POST /api/v1/namespaces/default/pods/a/eviction":                  "CREATE  v1 pods eviction",
		"GET /api/v1/namespaces/default":                                   "GET  v1 namespaces ",
		"GET /api/v1/namespaces":                                           "LIST  v1 namespaces ",
		"PATCH /apis/karpenter.sh/v1/nodeclaims/a/status":                  "PATCH karpenter.sh v1 nodeclaims status",
		"PUT /apis/coordination.k8s.io/v1/namespaces/kube-system/leases/a": "UPDATE coordination.k8s.io v1 leases ",
		"POST /apis/karpenter.sh/v1/nodeclaims":                            "CREATE karpenter.sh v1 nodeclaims ",
		"DELETE /apis/karpenter.sh/v1/nodeclaims/a":                        "DELETE karpenter.sh v1 nodeclaims ",
		"GET /version":              "",
		"GET /apis/karpenter.sh/v1": "",
		"GET /api":                  "",
		"POST /apis/authentication.k8s.io/v1/tokenreviews": "CREATE authentication.k8s.io v1 tokenreviews ",
	} {
		method, path, _ := strings.Cut(request, " ")
		got := ""
		if a, ok := askedOf(path); ok {
			got = strings.Join([]string{a.verb(method), a.group, a.version, a.resource, a.subresource}, " ")
		}
		if got != want {
			t.Errorf("%s is %q, want %q", request, got, want)
		}
	}
}

// Requests count by code and method, whoever makes them, and have durations but for watches.
func TestRequestsToTheAPIServerAreMeasured(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("watch") == "" {
			w.WriteHeader(http.StatusNotFound)
			w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`))
		}
	}))
	registry := prometheus.NewRegistry()
	cfg := &rest.Config{Host: server.URL}
	Measure(cfg, registry)
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Core.CoreV1().Nodes().Get(t.Context(), "a", metav1.GetOptions{}); !IsNotFound(err) {
		t.Fatal(err)
	}
	if _, err := c.NodeClaims.Get(t.Context(), "b"); !IsNotFound(err) {
		t.Fatal(err)
	}
	watch, err := c.Core.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	watch.Stop()
	server.Close()
	if _, err := c.Core.CoreV1().Nodes().Create(t.Context(), &corev1.Node{}, metav1.CreateOptions{}); err == nil {
		t.Fatal("there was an answer")
	}
	want := `
# HELP client_go_request_total HTTP requests to the API server by status code and method; <error> if there was no answer.
# TYPE client_go_request_total counter
client_go_request_total{code="200",method="GET"} 1
client_go_request_total{code="404",method="GET"} 2
client_go_request_total{code="<error>",method="POST"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "client_go_request_total"); err != nil {
		t.Error(err)
	}
	m := newRequestMetrics(registry) // a second client has the same
	if n := testutil.CollectAndCount(m.seconds); n != 3 {
		t.Errorf("%d series of durations", n)
	}
	for _, labels := range [][]string{{"GET", "", "v1", "nodes", ""}, {"GET", "karpenter.sh", "v1", "nodeclaims", ""}, {"CREATE", "", "v1", "nodes", ""}} {
		if !m.seconds.DeleteLabelValues(labels...) {
			t.Errorf("no duration of %v", labels)
		}
	}
}
