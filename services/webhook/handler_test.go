package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"millwright/api/conversion"
	"millwright/deploy/crds"
)

func newHandler(t *testing.T) *handler {
	t.Helper()
	shapes, err := conversion.NewShapes(crds.WithV1beta1, "with-v1beta1")
	if err != nil {
		t.Fatal(err)
	}
	return &handler{shapes: shapes, logger: zerolog.Nop(), metrics: newMetrics(prometheus.NewRegistry()), bytesMax: 1 << 16, now: time.Now,
		pool: func(_ context.Context, name string) (string, bool, error) {
			if name == "unread" {
				return "", false, errors.New("connection refused")
			}
			return "48h", name == "living", nil
		}}
}

const (
	poolJSON = `{"apiVersion":"karpenter.sh/v1beta1","kind":"NodePool","metadata":{"name":%q},"spec":{"disruption":{"expireAfter":"90m"},"template":{"spec":{"requirements":[],"nodeClassRef":{"name":"d"}}}}}`
	reviewOf = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u-1","desiredAPIVersion":%q,"objects":[%s]}}`
)

func post(t *testing.T, h *handler, path, contentType, body string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	w := httptest.NewRecorder()
	h.routes().ServeHTTP(w, r)
	return w
}

func review(t *testing.T, h *handler, body string) *apiextv1.ConversionReview {
	t.Helper()
	w := post(t, h, "/conversion/karpenter.sh", "application/json", body)
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	out := &apiextv1.ConversionReview{}
	if err := json.Unmarshal(w.Body.Bytes(), out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAllObjectsAreAnsweredInOrder(t *testing.T) {
	var objects []string
	for i := range 20 {
		objects = append(objects, fmt.Sprintf(poolJSON, fmt.Sprintf("p%d", i)))
	}
	for _, version := range []string{"v1", "v1beta1"} {
		body := strings.Replace(fmt.Sprintf(reviewOf, "karpenter.sh/v1", strings.Join(objects, ",")), "k8s.io/v1", "k8s.io/"+version, 1)
		got := review(t, newHandler(t), body)
		if got.APIVersion != "apiextensions.k8s.io/"+version || got.Request != nil || got.Response.UID != "u-1" || got.Response.Result.Status != "Success" {
			t.Fatalf("answered %+v", got.Response)
		}
		if len(got.Response.ConvertedObjects) != 20 {
			t.Fatalf("%d objects, want 20", len(got.Response.ConvertedObjects))
		}
		for i, o := range got.Response.ConvertedObjects {
			var v any
			if err := conversion.Unmarshal(o.Raw, &v); err != nil {
				t.Fatal(err)
			}
			pool := v.(conversion.Object)
			spec := pool["spec"].(conversion.Object)["template"].(conversion.Object)["spec"].(conversion.Object)
			if conversion.Name(pool) != fmt.Sprintf("NodePool p%d", i) || pool["apiVersion"] != "karpenter.sh/v1" || spec["expireAfter"] != "90m" {
				t.Errorf("object %d is %s", i, o.Raw)
			}
		}
	}
}

func TestANodeClaimExpiresAsItsNodePoolDoes(t *testing.T) {
	h := newHandler(t)
	asked := 0
	read := h.pool
	h.pool = func(ctx context.Context, name string) (string, bool, error) { asked++; return read(ctx, name) }
	claim := func(pool string) string {
		return fmt.Sprintf(`{"apiVersion":"karpenter.sh/v1beta1","kind":"NodeClaim","metadata":{"name":"c","labels":{"karpenter.sh/nodepool":%q}},"spec":{"requirements":[],"nodeClassRef":{"name":"d"}}}`, pool)
	}
	got := review(t, h, fmt.Sprintf(reviewOf, "karpenter.sh/v1", claim("living")+","+claim("living")+","+claim("dead")))
	for i, want := range []string{`"expireAfter":"48h"`, `"expireAfter":"48h"`, `"expireAfter":"Never"`} {
		if !bytes.Contains(got.Response.ConvertedObjects[i].Raw, []byte(want)) {
			t.Errorf("object %d lacks %s: %s", i, want, got.Response.ConvertedObjects[i].Raw)
		}
	}
	if asked != 2 {
		t.Errorf("asked %d times for two NodePools", asked)
	}
	failed := review(t, h, fmt.Sprintf(reviewOf, "karpenter.sh/v1", claim("unread")))
	if m := failed.Response.Result.Message; failed.Response.Result.Status != "Failure" || !strings.Contains(m, "NodeClaim c") || !strings.Contains(m, "read NodePool unread: connection refused") {
		t.Errorf("answered %+v", failed.Response.Result)
	}
}

func TestOneBadObjectFailsTheReviewByNameAndField(t *testing.T) {
	good := fmt.Sprintf(poolJSON, "good")
	for sentence, c := range map[string]struct{ to, object, want string }{
		"a number for a duration":  {"karpenter.sh/v1", strings.Replace(good, `"90m"`, `90`, 1), "NodePool good: spec.disruption.expireAfter: must be a string, is a number"},
		"a word for a weight":      {"karpenter.sh/v1", strings.Replace(good, `"spec":{`, `"spec":{"weight":"heavy",`, 1), "NodePool good: spec.weight: must be an integer, is a string"},
		"a list for a spec":        {"karpenter.sh/v1", `{"apiVersion":"karpenter.sh/v1beta1","kind":"NodePool","metadata":{"name":"bad"},"spec":[]}`, "NodePool bad: spec: must be an object, is a list"},
		"a requirement of words":   {"karpenter.sh/v1", strings.Replace(good, `"requirements":[]`, `"requirements":["x"]`, 1), "spec.template.spec.requirements[0]: must be an object, is a string"},
		"a label that is a number": {"karpenter.sh/v1", strings.Replace(good, `"template":{`, `"template":{"metadata":{"labels":{"a.b/c":5}},`, 1), "spec.template.metadata.labels[a.b/c]: must be a string, is a number"},
		"an unknown version":       {"karpenter.sh/v3", good, `NodePool good to karpenter.sh/v3: desired API version: unknown version "v3"`},
		"an unknown group":         {"example.com/v1", good, `unknown group in "example.com/v1"`},
		"no object at all":         {"karpenter.sh/v1", `7`, "parse object: must be a JSON object"},
		"null":                     {"karpenter.sh/v1", `null`, "objects[1]"},
	} {
		t.Run(sentence, func(t *testing.T) {
			got := review(t, newHandler(t), fmt.Sprintf(reviewOf, c.to, fmt.Sprintf(poolJSON, "first")+","+c.object))
			if c.to != "karpenter.sh/v1" {
				got = review(t, newHandler(t), fmt.Sprintf(reviewOf, c.to, c.object))
			}
			r := got.Response
			if r.Result.Status != "Failure" || r.UID != "u-1" || len(r.ConvertedObjects) != 0 || !strings.Contains(r.Result.Message, c.want) {
				t.Errorf("answered %+v, want %q", r, c.want)
			}
		})
	}
}

func TestWhatIsNoReviewIsRefused(t *testing.T) {
	for sentence, c := range map[string]struct {
		path, contentType, body string
		code                    int
	}{
		"broken JSON":            {"/conversion/karpenter.sh", "application/json", `{`, 400},
		"another kind":           {"/conversion/karpenter.sh", "application/json", `{"kind":"AdmissionReview","apiVersion":"apiextensions.k8s.io/v1"}`, 400},
		"another version":        {"/conversion/karpenter.sh", "application/json", `{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v2","request":{}}`, 400},
		"no request":             {"/conversion/karpenter.sh", "application/json", `{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1"}`, 400},
		"YAML":                   {"/conversion/karpenter.sh", "application/yaml", `{}`, 415},
		"another path":           {"/conversion/example.com", "application/json", `{}`, 404},
		"more than the limit":    {"/conversion/karpenter.k8s.aws", "application/json", `{"kind":"` + strings.Repeat("x", 1<<17) + `"}`, 413},
		"a charset is no matter": {"/conversion/karpenter.k8s.aws", "application/json; charset=utf-8", `{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1","request":{"uid":"u"}}`, 200},
	} {
		t.Run(sentence, func(t *testing.T) {
			if w := post(t, newHandler(t), c.path, c.contentType, c.body); w.Code != c.code {
				t.Errorf("status %d, want %d: %s", w.Code, c.code, w.Body)
			}
		})
	}
}
