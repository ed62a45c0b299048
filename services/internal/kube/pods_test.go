package kube

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// TestARefusedEvictionReturnsAtOnce: the API server asks to wait 10 s after a PodDisruptionBudget has changed
// that its controller has not looked at yet, and when that is too busy with it.
func TestARefusedEvictionReturnsAtOnce(t *testing.T) {
	for name, x := range map[string]struct {
		code   int
		answer string
		want   Class
	}{
		"not processed yet": {http.StatusTooManyRequests, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"TooManyRequests","code":429,
			"details":{"retryAfterSeconds":10,"causes":[{"reason":"DisruptionBudget","message":"still being processed"}]}}`, Blocked},
		"in conflict": {http.StatusGatewayTimeout, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Timeout","code":504,
			"details":{"retryAfterSeconds":10}}`, Transient},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked++
				if r.Method != http.MethodPost || r.URL.Path != "/api/v1/namespaces/shop/pods/web-1/eviction" {
					t.Errorf("asked for %s %s", r.Method, r.URL.Path)
				}
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("Retry-After", "10")
				w.WriteHeader(x.code)
				w.Write([]byte(x.answer))
			}))
			defer server.Close()
			c, err := New(&rest.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			err = c.EvictPod(ctx, "shop", "web-1", "uid-1")
			if got := Classify(err); got != x.want || ctx.Err() != nil || asked != 1 {
				t.Errorf("asked %d times: %v, which is %v, want %v", asked, err, got, x.want)
			}
		})
	}
}
