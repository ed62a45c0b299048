package kube_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"millwright/services/internal/kube"
)

// That a path is not served says nothing of the object it names: whose NodeClaim is gone loses its instance.
func TestAPathThatIsNotServedIsNoObjectThatIsGone(t *testing.T) {
	for name, c := range map[string]struct {
		kind, body string
		want       kube.Class
	}{
		"a page of the API server":  {"text/plain; charset=utf-8", "404 page not found\n", kube.Transient},
		"a page of a load balancer": {"text/html", "<html><h1>Not Found</h1></html>", kube.Transient},
		"an empty page":             {"", "", kube.Transient},
		"the object is gone":        {"application/json", `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`, kube.NotFound},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", c.kind)
				w.WriteHeader(http.StatusNotFound)
				w.Write([]byte(c.body))
			}))
			defer server.Close()
			client, err := kube.New(&rest.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			_, err = client.NodeClaims.Get(t.Context(), "a")
			wantClass(t, err, c.want)
			_, err = client.Core.CoreV1().Nodes().Get(t.Context(), "a", metav1.GetOptions{})
			wantClass(t, err, c.want)
			wantClass(t, client.EvictPod(t.Context(), "default", "a", "uid"), c.want)
		})
	}
}
