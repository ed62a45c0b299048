package certificates

import (
	"bytes"
	"crypto/x509"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"millwright/services/internal/pki"
)

// rig is a Keeper of NATS's secrets alone, on a clock of its own; etcd's users are tested with a real etcd.
type rig struct {
	*testing.T
	keeper *Keeper
	kube   *fake.Clientset
	now    time.Time
	// off is why the clock cannot be relied on.
	off error
	// registry of the process that runs.
	registry *prometheus.Registry
}

func newRig(t *testing.T) *rig {
	r := &rig{T: t, now: time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC), kube: fake.NewClientset(
		&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "mw-nats"}},
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "mw-watcher"}})}
	r.restart()
	return r
}

// restart is a new process.
func (r *rig) restart() {
	r.Helper()
	r.registry = prometheus.NewRegistry()
	k, err := New(Config{Settings: Settings{Cluster: "c", Namespace: "ns", Prefix: "mw", NATSMembers: 3}, Core: r.kube,
		Now: func() time.Time { return r.now }, Reliable: func() error { return r.off }, Logger: zerolog.Nop(), Registerer: r.registry})
	if err != nil {
		r.Fatal(err)
	}
	r.keeper = k
}

func (r *rig) pass() {
	r.Helper()
	if err := r.keeper.pass(r.Context()); err != nil {
		r.Fatal(err)
	}
}

// state is every Secret's data, and the annotations of the pods.
func (r *rig) state() map[string]string {
	r.Helper()
	out := map[string]string{}
	secrets, err := r.kube.CoreV1().Secrets("ns").List(r.Context(), metav1.ListOptions{})
	if err != nil {
		r.Fatal(err)
	}
	for _, s := range secrets.Items {
		for key, data := range s.Data {
			out[s.Name+"/"+key] = string(data)
		}
	}
	nats, err := r.kube.AppsV1().StatefulSets("ns").Get(r.Context(), "mw-nats", metav1.GetOptions{})
	if err != nil {
		r.Fatal(err)
	}
	watcher, err := r.kube.AppsV1().Deployments("ns").Get(r.Context(), "mw-watcher", metav1.GetOptions{})
	if err != nil {
		r.Fatal(err)
	}
	out["restart nats"], out["restart watcher"] = nats.Spec.Template.Annotations[Annotation], watcher.Spec.Template.Annotations[Annotation]
	return out
}

// changed are the keys whose values differ.
func changed(before, after map[string]string) []string {
	var out []string
	for key, value := range after {
		if before[key] != value {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}

func TestAnotherPassAndAnotherProcessChangeNothing(t *testing.T) {
	r := newRig(t)
	r.pass()
	first := r.state()
	for _, key := range []string{"mw-ca/ca.key", "mw-nats-server/tls.key", "mw-client-watcher/tls.crt", "mw-nats-users/watcher", "mw-nats-users/reader", "restart nats"} {
		if first[key] == "" {
			t.Errorf("there is no %s", key)
		}
	}
	if first["mw-nats-users/watcher"] == first["mw-nats-users/reader"] {
		t.Error("both users have one password")
	}
	r.restart()
	r.pass()
	if again := r.state(); !maps.Equal(first, again) {
		t.Errorf("changed: %v", changed(first, again))
	}
}

// With a clock ten years ahead everything would have expired, and every pod be restarted with certificates
// that nobody else's clock accepts.
func TestAWrongClockRenewsNothing(t *testing.T) {
	r := newRig(t)
	r.pass()
	before, began := r.state(), r.now
	r.now, r.off = began.AddDate(10, 0, 0), errors.New("the clock is ten years ahead")
	if err := r.keeper.pass(t.Context()); !errors.Is(err, r.off) {
		t.Errorf("a pass with a wrong clock: %v", err)
	}
	if after := r.state(); !maps.Equal(before, after) {
		t.Errorf("changed: %v", changed(before, after))
	}
	r.now, r.off = began.Add(time.Minute), nil
	r.pass()
	if after := r.state(); !maps.Equal(before, after) {
		t.Errorf("changed once the clock was right: %v", changed(before, after))
	}
}

// Certificates are renewed in time; who reads the files again is left alone, NATS is restarted.
func TestCertificatesAreRenewedBeforeTheyExpire(t *testing.T) {
	r := newRig(t)
	r.pass()
	before := r.state()
	r.now = r.now.Add(pki.LeafLife - pki.LeafLife/3 + time.Hour)
	r.pass()
	got := changed(before, r.state())
	if !slices.Contains(got, "mw-client-watcher/tls.crt") || !slices.Contains(got, "mw-nats-server/tls.crt") || !slices.Contains(got, "restart nats") {
		t.Errorf("changed: %v", got)
	}
	for _, key := range []string{"mw-ca/ca.crt", "mw-nats-users/watcher", "restart watcher"} {
		if slices.Contains(got, key) {
			t.Errorf("%s changed", key)
		}
	}
}

// A new CA is trusted everywhere, and everybody restarted, before it signs anything.
func TestANewAuthorityIsAnnouncedBeforeItSigns(t *testing.T) {
	r := newRig(t)
	r.pass()
	ca := r.state()["mw-ca/ca.crt"]
	r.now = r.now.Add(pki.CALife - pki.CALife/3 + time.Hour)
	before := r.state()
	r.pass()
	announced := r.state()
	if announced["mw-ca/ca.crt"] != ca || announced["mw-ca/next-ca.crt"] == "" {
		t.Fatal("the next CA signs at once")
	}
	for _, key := range []string{"mw-client-watcher/ca.crt", "mw-nats-server/ca.crt", "restart watcher", "restart nats"} {
		if !slices.Contains(changed(before, announced), key) {
			t.Errorf("%s did not change", key)
		}
	}
	r.now = r.now.Add(pki.Overlap + 2*time.Hour)
	r.pass()
	after := r.state()
	if after["mw-ca/ca.crt"] != announced["mw-ca/next-ca.crt"] || !strings.Contains(after["mw-client-watcher/ca.crt"], ca) {
		t.Error("the next CA does not sign, or the old one is no longer trusted")
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(announced["mw-client-watcher/ca.crt"]))
	leaf := pki.DecodeLeaf(map[string][]byte{"tls.crt": []byte(after["mw-nats-server/tls.crt"]), "tls.key": []byte(after["mw-nats-server/tls.key"])})
	if _, err := leaf.Cert.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: r.now, DNSName: "mw-nats-2.mw-nats.ns.svc"}); err != nil {
		t.Errorf("a pod of before the change does not trust a server of after it: %v", err)
	}
}

// What somebody deleted or broke is made again; passwords that are there stay.
func TestBrokenSecretsAreRepaired(t *testing.T) {
	r := newRig(t)
	r.pass()
	before := r.state()
	secrets := r.kube.CoreV1().Secrets("ns")
	broken, err := secrets.Get(t.Context(), "mw-client-watcher", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	broken.Data["tls.key"] = bytes.Repeat([]byte("x"), 10)
	if _, err := secrets.Update(t.Context(), broken, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := secrets.Delete(t.Context(), "mw-client-terminator", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.pass()
	got := changed(before, r.state())
	for _, key := range got {
		if !strings.HasPrefix(key, "mw-client-watcher/tls") && !strings.HasPrefix(key, "mw-client-terminator/tls") {
			t.Errorf("%s changed too", key)
		}
	}
	if len(got) != 4 {
		t.Errorf("changed: %v", got)
	}
}

// expiries are what the metric says, by Secret.
func (r *rig) expiries() map[string]time.Time {
	r.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		r.Fatal(err)
	}
	out := map[string]time.Time{}
	for _, f := range families {
		if f.GetName() != "millwright_certificates_expiry_timestamp_seconds" {
			continue
		}
		for _, m := range f.GetMetric() {
			out[m.GetLabel()[0].GetValue()] = time.Unix(int64(m.GetGauge().GetValue()), 0)
		}
	}
	return out
}

// The metric says when what is in each Secret expires, also after a start that has nothing to renew, and goes
// on saying it while nothing can be renewed.
func TestExpiriesAreMeasured(t *testing.T) {
	r := newRig(t)
	began := r.now
	r.pass()
	r.restart()
	r.pass()
	got := r.expiries()
	if !got["mw-ca"].Equal(began.Add(pki.CALife)) || !got["mw-client-watcher"].Equal(began.Add(pki.LeafLife)) || !got["mw-nats-server"].Equal(began.Add(pki.LeafLife)) {
		t.Errorf("%v", got)
	}
	if len(got) != 2+len(Services) {
		t.Errorf("%d certificates: %v", len(got), got)
	}
	later := pki.LeafLife - time.Hour
	r.now, r.off = began.Add(later), errors.New("the clock cannot be relied on")
	if r.keeper.pass(t.Context()) == nil {
		t.Error("a pass without a clock")
	}
	if again := r.expiries(); !maps.EqualFunc(got, again, time.Time.Equal) {
		t.Errorf("while nothing can be renewed: %v", again)
	}
	r.off = nil
	r.pass()
	if e := r.expiries()["mw-client-watcher"]; !e.Equal(r.now.Add(pki.LeafLife)) {
		t.Errorf("renewed until %s", e)
	}
}
