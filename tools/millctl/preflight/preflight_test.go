package preflight

import (
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright/deploy/iam"
	"millwright/deploy/manifests"
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

func TestEtcdThatDoesNotFlush(t *testing.T) {
	for about, c := range map[string]struct {
		metrics string
		want    Verdict
	}{
		"flushes":             {"etcd_server_proposals_applied_total 100\netcd_disk_wal_fsync_duration_seconds_count 90\n", OK},
		"never flushes":       {"etcd_server_proposals_applied_total 100\netcd_disk_wal_fsync_duration_seconds_count 0\n", Failed},
		"has done little yet": {"etcd_server_proposals_applied_total 3\n", Skipped},
	} {
		r := &report{}
		judgeFsync("page", c.metrics, r)
		if r.results[0].Verdict != c.want {
			t.Errorf("%s: %+v", about, r.results[0])
		}
	}
}

func TestNATSSettings(t *testing.T) {
	three := []string{"a", "b", "c"}
	server := func(urls []string, every time.Duration) varz {
		v := varz{Version: "2.12.1"}
		v.Cluster.URLs = urls
		if every > 0 {
			v.JetStream.Config = &struct {
				SyncInterval time.Duration `json:"sync_interval"`
				SyncAlways   bool          `json:"sync_always"`
			}{SyncInterval: every}
		}
		return v
	}
	for about, c := range map[string]struct {
		varz varz
		want Verdict
	}{
		"three servers":     {server(three, 2*time.Minute), OK},
		"one server":        {server(nil, 2*time.Minute), Warning},
		"flushes too late":  {server(three, time.Hour), Warning},
		"keeps no messages": {server(three, 0), Failed},
	} {
		r := &report{}
		c.varz.judge("page", 1, r)
		if r.results[0].Verdict != c.want {
			t.Errorf("%s: %+v", about, r.results[0])
		}
	}
}
