package status

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/ledger"
	"millwright/planner/nodepool"
	amounts "millwright/planner/resource"
	"millwright/services/internal/kube"
)

// changingCache has Nodes and NodeClaims, and says what changed.
type changingCache struct {
	Cache
	changes kube.Changes
	forgets bool
	claims  map[string]*karpv1.NodeClaim
	nodes   map[string]*corev1.Node
	listed  int
}

func (c *changingCache) Version() uint64 { return c.changes.Version() }
func (c *changingCache) Since(version uint64) ([]kube.Change, uint64, bool) {
	changes, now, complete := c.changes.Since(version)
	return changes, now, complete && !c.forgets
}
func (c *changingCache) NodeClaim(name string) *karpv1.NodeClaim { return c.claims[name] }
func (c *changingCache) NodeClaims() []*karpv1.NodeClaim {
	c.listed++
	return sorted(c.claims, func(*karpv1.NodeClaim) bool { return true })
}
func (c *changingCache) Nodes() []*corev1.Node {
	c.listed++
	return sorted(c.nodes, func(*corev1.Node) bool { return true })
}
func (c *changingCache) NodeClaimsByProviderID(id string) []*karpv1.NodeClaim {
	return sorted(c.claims, func(o *karpv1.NodeClaim) bool { return id != "" && o.Status.ProviderID == id })
}
func (c *changingCache) NodesByProviderID(id string) []*corev1.Node {
	return sorted(c.nodes, func(n *corev1.Node) bool { return id != "" && n.Spec.ProviderID == id })
}

func sorted[T any](m map[string]T, is func(T) bool) (all []T) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if is(m[name]) {
			all = append(all, m[name])
		}
	}
	return all
}

// plainSums adds up everything.
func plainSums(c *changingCache, l *ledger.Ledger) map[string]nodepool.Sum {
	sums, claimed := map[string]nodepool.Sum{}, map[string]bool{}
	for _, o := range c.claims {
		id := o.Status.ProviderID
		if id == "" {
			continue
		}
		claimed[id] = true
		inLedger := l.Claim(o.Name)
		if !o.DeletionTimestamp.IsZero() || inLedger != nil && inLedger.Doomed != nil {
			continue
		}
		var node *corev1.Node
		if nodes := c.NodesByProviderID(id); len(nodes) == 1 {
			node = nodes[0]
		}
		pool := o.Labels[karpv1.NodePoolLabelKey]
		sums[pool] = sums[pool].Plus(nodepool.Capacity(o, node))
	}
	for _, n := range c.nodes {
		if pool := n.Labels[karpv1.NodePoolLabelKey]; pool != "" && n.DeletionTimestamp.IsZero() && !claimed[n.Spec.ProviderID] {
			sums[pool] = sums[pool].Plus(amounts.From(n.Status.Capacity))
		}
	}
	return sums
}

// TestSumsOfNodePoolsFollowChanges: sums that are kept up to date equal those added up from nothing.
func TestSumsOfNodePoolsFollowChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := ledger.New("00112233445566778899aabbccddeeff")
		record := func(kind ledger.Kind, payload any) {
			if err := l.Apply(ledger.Entry{Seq: l.Seq() + 1, Mode: ledger.ModeActive, Kind: kind, Payload: payload}); err != nil {
				t.Fatal(err)
			}
		}
		record(ledger.KindGenesis, &ledger.Genesis{LogID: l.LogID(), Cluster: "test"})
		record(ledger.KindProvisioningPlanned, &ledger.ProvisioningPlanned{Claims: make([]ledger.PlannedClaim, 4)})
		var names []string
		for _, c := range l.Claims() {
			names = append(names, c.Name)
		}
		c := &changingCache{claims: map[string]*karpv1.NodeClaim{}, nodes: map[string]*corev1.Node{}}
		s := &poolSums{}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			for range rapid.IntRange(0, 3).Draw(t, "changes") {
				name := rapid.SampledFrom(names).Draw(t, "claim")
				if rapid.IntRange(0, 5).Draw(t, "kind") > 0 {
					c.change(t, name)
				} else if inLedger := l.Claim(name); inLedger != nil && inLedger.Doomed == nil {
					record(ledger.KindClaimDoomed, &ledger.ClaimDoomed{Claim: name})
				} else {
					record(ledger.KindClaimClosed, &ledger.ClaimClosed{Claim: name})
				}
			}
			c.forgets = rapid.IntRange(0, 9).Draw(t, "forgets") == 0
			s.update(c, l.Version())
			if diff := cmp.Diff(plainSums(c, l), s.ofPool); diff != "" {
				t.Fatalf("sums (- added up, + kept):\n%s", diff)
			}
		}
	})
}

// change one Node or NodeClaim.
func (c *changingCache) change(t *rapid.T, name string) {
	meta := metav1.ObjectMeta{Name: name, Labels: map[string]string{karpv1.NodePoolLabelKey: rapid.SampledFrom([]string{"blue", "green"}).Draw(t, "pool")}}
	if rapid.IntRange(0, 4).Draw(t, "going") == 0 {
		meta.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	}
	id := rapid.SampledFrom([]string{"", "i-1", "i-2", "i-3"}).Draw(t, "id")
	capacity := corev1.ResourceList{"cpu": resource.MustParse(rapid.SampledFrom([]string{"1", "2"}).Draw(t, "cpu"))}
	gone := rapid.IntRange(0, 3).Draw(t, "gone") == 0
	if rapid.Bool().Draw(t, "a Node") {
		n := &corev1.Node{ObjectMeta: meta, Spec: corev1.NodeSpec{ProviderID: id}, Status: corev1.NodeStatus{Capacity: capacity}}
		if old := c.nodes[name]; old != nil && old.Spec.ProviderID != "" {
			n.Spec.ProviderID = old.Spec.ProviderID // it never changes
		}
		if c.nodes[name] = n; gone {
			delete(c.nodes, name)
		}
		c.changes.Add(kube.ChangeOf(n))
		return
	}
	o := &karpv1.NodeClaim{ObjectMeta: meta, Status: karpv1.NodeClaimStatus{ProviderID: id, Capacity: capacity}}
	if c.claims[name] = o; gone {
		delete(c.claims, name)
	}
	c.changes.Add(kube.ChangeOf(o))
}

// When a condition changes on one of many NodeClaims, not all of them are listed again.
func TestSumsOfNodePoolsCostWhatChanged(t *testing.T) {
	c := &changingCache{claims: map[string]*karpv1.NodeClaim{}, nodes: map[string]*corev1.Node{}}
	for i := range 3 {
		name := fmt.Sprint("claim-", i)
		c.claims[name] = &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{karpv1.NodePoolLabelKey: "blue"}},
			Status: karpv1.NodeClaimStatus{ProviderID: fmt.Sprint("i-", i), Capacity: corev1.ResourceList{"cpu": resource.MustParse("2")}}}
	}
	l, s := ledger.New("").Version(), &poolSums{}
	s.update(c, l)
	before := c.listed
	c.claims["claim-1"] = c.claims["claim-1"].DeepCopy()
	c.changes.Add(kube.ChangeOf(c.claims["claim-1"]))
	s.update(c, l)
	if c.listed != before {
		t.Errorf("%d lists for one change", c.listed-before)
	}
	if got := s.ofPool["blue"]; got.Nodes != 3 || got.Capacity.MilliCPU != 6000 {
		t.Errorf("sums are %+v", got)
	}
}
