package preflight

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"millwright/deploy/iam"
	"millwright/deploy/manifests"
	"millwright/tools/ec2sim/sim"
	"millwright/tools/ec2sim/simclient"
)

// Every action in the policies is tried, or there is a reason why it cannot be.
func TestEveryActionIsTriedOrExcused(t *testing.T) {
	actions := map[string]bool{}
	for _, s := range iam.Statements {
		for _, action := range s.Actions {
			actions[action] = true
			if _, ok := trials[action]; ok == (untried[action] != "") {
				t.Errorf("%s: tried %v, excused by %q", action, ok, untried[action])
			}
		}
	}
	for action := range trials {
		if !actions[action] {
			t.Errorf("%s is tried, and in no policy", action)
		}
	}
}

func TestMissingFields(t *testing.T) {
	object := func(properties map[string]apiextv1.JSONSchemaProps) apiextv1.JSONSchemaProps {
		return apiextv1.JSONSchemaProps{Type: "object", Properties: properties}
	}
	leaf := apiextv1.JSONSchemaProps{Type: "string"}
	list := func(of apiextv1.JSONSchemaProps) apiextv1.JSONSchemaProps {
		return apiextv1.JSONSchemaProps{Type: "array", Items: &apiextv1.JSONSchemaPropsOrArray{Schema: &of}}
	}
	open := true
	want := object(map[string]apiextv1.JSONSchemaProps{"spec": object(map[string]apiextv1.JSONSchemaProps{
		"a": leaf, "terms": list(object(map[string]apiextv1.JSONSchemaProps{"b": leaf, "c": leaf}))})})
	for about, c := range map[string]struct {
		have apiextv1.JSONSchemaProps
		want []string
	}{
		"the same": {want, nil},
		"a field of a list's elements": {object(map[string]apiextv1.JSONSchemaProps{"spec": object(map[string]apiextv1.JSONSchemaProps{
			"a": leaf, "terms": list(object(map[string]apiextv1.JSONSchemaProps{"c": leaf, "more": leaf}))})}), []string{"spec.terms[].b"}},
		"the whole":                    {object(nil), []string{"spec"}},
		"what is open takes all there": {object(map[string]apiextv1.JSONSchemaProps{"spec": {XPreserveUnknownFields: &open}}), nil},
	} {
		if got := missingFields("", &want, &c.have); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", about, got, c.want)
		}
	}
}

// The rights that are checked are those of the chart, for the accounts and the namespace of the release.
func TestGrantedRights(t *testing.T) {
	rights, err := granted(manifests.Distributed, Config{Namespace: "mw", Account: "karpenter"})
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, of := range rights {
		for _, a := range of.asked {
			texts = append(texts, strings.TrimSpace(of.account+" "+textOf(a)+" "+a.Namespace+" "+a.Name))
		}
	}
	for _, want := range []string{
		"karpenter-lifecycle create nodeclaims.karpenter.sh", "karpenter-terminator create pods/eviction",
		"karpenter-disruptor update leases.coordination.k8s.io mw karpenter-leader-election", "karpenter-lifecycle get services kube-system kube-dns",
	} {
		if !slices.Contains(texts, want) {
			t.Errorf("%q is not asked for", want)
		}
	}
	for _, unwanted := range texts {
		if strings.HasPrefix(unwanted, "karpenter-watcher create nodeclaims") {
			t.Error("the watcher is to have ", unwanted)
		}
	}
}

func TestRightsOfAConsoleThatIsNotInstalledAreNotMissing(t *testing.T) {
	for name, c := range map[string]struct{ account string }{"embedded": {"millwright"}, "distributed": {"millwright-watcher"}} {
		t.Run(name, func(t *testing.T) {
			// It knows one ServiceAccount, and grants everything but what the console alone needs.
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if q.Method == http.MethodGet {
					if strings.HasSuffix(q.URL.Path, "/serviceaccounts/"+c.account) {
						_, _ = w.Write([]byte(`{"kind":"ServiceAccount","apiVersion":"v1"}`))
						return
					}
					w.WriteHeader(http.StatusNotFound)
					_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`))
					return
				}
				var review authorizationv1.SubjectAccessReview
				if err := json.NewDecoder(q.Body).Decode(&review); err != nil {
					t.Error(err)
				}
				a := review.Spec.ResourceAttributes
				review.Status.Allowed = !slices.Contains([]string{"tokenreviews", "subjectaccessreviews", "configmaps"}, a.Resource) &&
					!strings.HasSuffix(review.Spec.User, "-console") && !strings.HasSuffix(review.Spec.User, "-operator")
				_ = json.NewEncoder(w).Encode(review)
			}))
			defer srv.Close()
			r := &report{}
			checkRights(t.Context(), Config{Kube: &rest.Config{Host: srv.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, Namespace: "kube-system", Account: "millwright"}, r)
			if len(r.results) == 0 {
				t.Error("nothing is checked")
			}
			for _, x := range r.results {
				if x.Verdict != OK {
					t.Errorf("%s %s: %s", x.Verdict, x.Object, x.Message)
				}
			}
		})
	}
}

func TestHolderOfALease(t *testing.T) {
	now := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	lease := func(holder string, age time.Duration) *coordinationv1.Lease {
		renewed, seconds := metav1.NewMicroTime(now.Add(-age)), int32(15)
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &renewed, LeaseDurationSeconds: &seconds}}
	}
	for about, c := range map[string]struct {
		lease *coordinationv1.Lease
		want  string
	}{
		"renewed":  {lease("karpenter-1", 14*time.Second), "karpenter-1"},
		"expired":  {lease("karpenter-1", 16*time.Second), ""},
		"released": {lease("", time.Second), ""},
		"new":      {&coordinationv1.Lease{}, ""},
	} {
		if got := holderOf(c.lease, now); got != c.want {
			t.Errorf("%s: got %q, want %q", about, got, c.want)
		}
	}
}

// A region that is not enabled for the account answers as to wrong credentials, so the remedy names both.
func TestRemedyForARegionThatIsNotEnabled(t *testing.T) {
	s := httptest.NewServer(sim.New(sim.Config{ClusterName: "blue", Region: "us-west-2", Settings: sim.DefaultSettings()}))
	t.Cleanup(s.Close)
	cfg := Config{AWS: &aws.Config{Region: "us-west-2", BaseEndpoint: aws.String(s.URL), Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""), RetryMaxAttempts: 1}}
	for code, want := range map[string]string{"InvalidClientTokenId": "Enable the region", "OptInRequired": "Enable the region", "AccessDenied": "Give credentials"} {
		f, err := simclient.New(s.URL).AddFault(t.Context(), simclient.Fault{Action: "GetCallerIdentity", Code: code, Status: 403})
		if err != nil {
			t.Fatal(err)
		}
		r := &report{}
		checkAccount(t.Context(), cfg, r)
		if len(r.results) != 1 || r.results[0].Verdict != Failed || !strings.HasPrefix(r.results[0].Remedy, want) || !strings.Contains(r.results[0].Message, code) {
			t.Errorf("%s: %+v", code, r.results)
		}
		if err := simclient.New(s.URL).ClearFault(t.Context(), f.ID); err != nil {
			t.Fatal(err)
		}
	}
}
