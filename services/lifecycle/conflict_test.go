package lifecycle

import (
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
)

// past is what the cluster held at a time.
type past struct {
	at     time.Time
	claims map[string]*karpv1.NodeClaim
	nodes  map[string]*corev1.Node
}

// lag makes the cache show NodeClaims and Nodes as they were that long ago; the API server itself answers
// from the present.
func (k *fakeKube) lag(d time.Duration) {
	k.behind = d
	k.remember()
}

// remember keeps the present for a cache that lags behind.
func (k *fakeKube) remember() {
	if k.behind > 0 {
		k.history = append(k.history, past{k.r.now, maps.Clone(k.claims), maps.Clone(k.nodes)})
	}
}

// shown are the objects in the cache.
func (k *fakeKube) shown() (map[string]*karpv1.NodeClaim, map[string]*corev1.Node) {
	if k.behind == 0 || len(k.history) == 0 {
		return k.claims, k.nodes
	}
	shown := k.history[0]
	for _, p := range k.history {
		if !p.at.After(k.r.now.Add(-k.behind)) {
			shown = p
		}
	}
	return shown.claims, shown.nodes
}

// deletion deletes n claims whose cache lags behind, and returns the calls that wrote and those of them that
// were refused.
func deletion(t *testing.T, n int, behind time.Duration) (writes, refused int) {
	r := newRig(t)
	names := r.readyClaims(n)
	r.wait(3 * time.Second)
	r.kube.lag(behind)
	r.trail, r.kube.refused = nil, 0
	for _, name := range names {
		r.kube.deleteClaim(name)
	}
	r.run("all gone", func() bool { return len(r.kube.claims) == 0 && len(r.kube.nodes) == 0 })
	r.wait(min(2*behind, 3*time.Minute))
	for _, act := range r.trail {
		switch act {
		case "update node", "update nodeclaim", "update nodeclaim status", "delete node", "delete nodeclaim":
			writes++
		}
	}
	return writes, r.kube.refused
}

func TestACacheThatLagsBehindCostsTimeAndNoStormOfWrites(t *testing.T) {
	const claims = 20
	needed, _ := deletion(t, claims, 0)
	for _, behind := range []time.Duration{2 * time.Second, 30 * time.Second, 5 * time.Minute} {
		writes, refused := deletion(t, claims, behind)
		t.Logf("%s behind: %d writes for %d needed ones, %d of them refused", behind, writes, needed, refused)
		if writes*10 > needed*12 {
			t.Errorf("%s behind: %d writes for %d needed ones, %d of them refused", behind, writes, needed, refused)
		}
	}
}

func TestAfterAConflictTheObjectIsReadAnew(t *testing.T) {
	r := newRig(t)
	name := r.plan()
	r.run("ready", r.ready(name))
	r.wait(3 * time.Second)
	r.kube.lag(time.Hour)
	// Somebody else writes, and the cache does not show it.
	o := r.kube.claims[name].DeepCopy()
	o.Labels["team"] = "blue"
	r.kube.put(&r.kube.claims, o)
	node := r.kube.Nodes()[0].DeepCopy()
	node.Labels["team"] = "blue"
	r.kube.put(&r.kube.nodes, node)
	r.kube.refused = 0
	r.kube.deleteClaim(name)
	if err := r.svc.garbage.Scan(t.Context()); err != nil { // it sees that it is being deleted
		t.Fatal(err)
	}
	r.run("gone", func() bool { return len(r.kube.claims) == 0 && len(r.kube.nodes) == 0 })
	if r.kube.refused > 2 {
		t.Errorf("%d writes were refused, one for each object may be", r.kube.refused)
	}
}

// Conflicts that are nobody's write, as a webhook may answer, hold claims up for no longer than they come.
func TestConflictsWithoutANewerVersionPassAtOnce(t *testing.T) {
	r := newRig(t)
	r.kube.contested = 8
	began, name := r.now, r.plan()
	r.run("ready", r.ready(name))
	r.wait(3 * time.Second)
	r.kube.contested = 8
	r.kube.deleteClaim(name)
	r.run("gone", func() bool { return len(r.kube.claims) == 0 && len(r.kube.nodes) == 0 })
	if took := r.now.Sub(began); r.kube.contested > 0 || took > 90*time.Second {
		t.Errorf("%s; %d writes were not refused", took, r.kube.contested)
	}
}

// A providerID that somebody else has written into the status is put right: planners would wait for its Node.
func TestAForeignProviderIDIsPutRight(t *testing.T) {
	r := newRig(t)
	name := r.readyClaims(1)[0]
	o := r.kube.claims[name].DeepCopy()
	was := o.Status.ProviderID
	o.Status.ProviderID = "aws:///us-west-2a/i-0fffffffffffffff0"
	r.kube.put(&r.kube.claims, o)
	r.run("put right", func() bool { return r.kube.claims[name].Status.ProviderID == was })
}
