package nodeclass

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright/api/drifthash"
	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
)

func ownHash(nc *awsv1.EC2NodeClass) string {
	hash, _ := Hasher{}.Current(nc)
	return hash
}

func stamped(name, hash, version string, conditions ...metav1.Condition) *karpv1.NodeClaim {
	c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: karpv1.NodeClaimStatus{Conditions: conditions}}
	if version != "" {
		c.Annotations = map[string]string{hashKey: hash, versionKey: version}
	}
	return c
}

// The rules: api §4.
func TestChangeOfHashVersionStampsWithoutDrift(t *testing.T) {
	drifted := metav1.Condition{Type: karpv1.ConditionTypeDrifted, Status: metav1.ConditionTrue}
	mw1 := drifthash.NodeClassMW1(&class().Spec, "AL2023")
	if mw1 != "13110502481076343298" {
		t.Errorf("the mw1 hash of a plain class is %s", mw1)
	}
	v4 := drifthash.NodeClass("v4", &class().Spec, "AL2023", "")
	hash := ownHash(class())
	cases := map[string]struct {
		class map[string]string
		claim *karpv1.NodeClaim
		want  string
	}{
		"in sync by a version that cannot be computed": {annotated("111", "v3"), stamped("a", "111", "v3"), hash + " v5"},
		"drifted by it":                           {annotated("111", "v3"), stamped("a", "222", "v3"), "222 v5"},
		"by an older one still":                   {annotated("111", "v3"), stamped("a", "333", "v2"), hash + " v5"},
		"a claim known to have drifted":           {annotated("111", "v3"), stamped("a", "111", "v3", drifted), "111 v5"},
		"a bare claim":                            {annotated("111", "v3"), stamped("a", "", ""), hash + " v5"},
		"nothing was stamped":                     {nil, stamped("a", "", ""), hash + " v5"},
		"mw1 in sync":                             {annotated(mw1, "mw1"), stamped("a", mw1, "mw1"), hash + " v5"},
		"mw1 drifted":                             {annotated(mw1, "mw1"), stamped("a", "1", "mw1"), "1 v5"},
		"mw1 of a class edited while nobody ran":  {annotated("1", "mw1"), stamped("a", "1", "mw1"), "1 v5"},
		"a takeover from 1.12":                    {annotated(hash, "v5"), stamped("a", hash, "v5"), ""},
		"a takeover from 1.12 with drift":         {annotated(hash, "v5"), stamped("a", "1", "v5"), ""},
		"a takeover from 1.1":                     {annotated(v4, "v4"), stamped("a", v4, "v4"), ""},
		"mw1 in sync, launched after the class":   {annotated(hash, "v5"), stamped("a", mw1, "mw1"), hash + " v5"},
		"v4 in sync beside a class of v5":         {annotated(hash, "v5"), stamped("a", v4, "v4"), hash + " v5"},
		"v4 drifted beside a class of v5":         {annotated(hash, "v5"), stamped("a", "1", "v4"), "1 v5"},
		"v3 beside a class of v5 is not compared": {annotated(hash, "v5"), stamped("a", "1", "v3"), ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			nc, got := class(), ""
			nc.Annotations = c.class
			for _, s := range stamp(Hasher{}, nc, []*karpv1.NodeClaim{c.claim}) {
				got = s.After.Annotations[hashKey] + " " + s.After.Annotations[versionKey]
			}
			if got != c.want {
				t.Errorf("claim: %q, want %q", got, c.want)
			}
			want := annotated(hash, "v5")
			if c.class[versionKey] == "v4" {
				want = annotated(v4, "v4")
			}
			if d := cmp.Diff(want, nc.Annotations); d != "" {
				t.Error(d)
			}
		})
	}
}

func annotated(hash, version string) map[string]string {
	return map[string]string{hashKey: hash, versionKey: version}
}

func TestANewSpecMovesTheHashOfTheClassAlone(t *testing.T) {
	for _, version := range []string{"v4", "v5"} {
		nc := class()
		nc.Annotations = annotated(drifthash.NodeClass(version, &nc.Spec, "AL2023", ""), version)
		before := nc.Annotations[hashKey]
		nc.Spec.Role = "changed"
		if s := stamp(Hasher{}, nc, []*karpv1.NodeClaim{stamped("a", before, version)}); len(s) != 0 {
			t.Error("the claim must drift, not be stamped")
		}
		if nc.Annotations[hashKey] == before || nc.Annotations[versionKey] != version {
			t.Errorf("%s: %v", version, nc.Annotations)
		}
	}
}

// The rules: api §9.
func TestHashOfACABundle(t *testing.T) {
	v5 := func(ca string) string { return drifthash.NodeClass("v5", &class().Spec, "AL2023", ca) }
	cases := map[string]struct {
		hasher Hasher
		has    string
		want   string
	}{
		"none is configured":                 {NewHasher("", "own"), "", v5("")},
		"one is configured":                  {NewHasher("given", "own"), "", v5("given")},
		"another was configured before":      {NewHasher("given", "own"), v5("old"), v5("given")},
		"whoever ran before counted its own": {NewHasher("", "own"), v5("own"), v5("own")},
		"one is configured where none was":   {NewHasher("given", "own"), v5(""), v5("given")},
		"the one configured is no more":      {NewHasher("", "own"), v5("given"), v5("")},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			nc := class()
			nc.Annotations = annotated(c.has, "v5")
			if got, _ := c.hasher.Current(nc); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// fakeWriter writes down what it is asked for and gives objects a new resourceVersion.
type fakeWriter struct {
	log  []string
	fail string
}

func (w *fakeWriter) noteWrite(what string) error {
	w.log = append(w.log, what)
	if what == w.fail {
		return errors.New("conflict")
	}
	return nil
}

func (w *fakeWriter) UpdateNodeClaim(_ context.Context, before, after *karpv1.NodeClaim) (*karpv1.NodeClaim, error) {
	return after, w.noteWrite("claim " + before.Name)
}

func (w *fakeWriter) UpdateNodeClass(_ context.Context, before, after *awsv1.EC2NodeClass) (*awsv1.EC2NodeClass, error) {
	written := after.DeepCopy()
	written.ResourceVersion, written.Status = before.ResourceVersion+"+", before.Status
	return written, w.noteWrite("metadata at " + before.ResourceVersion)
}

func (w *fakeWriter) UpdateNodeClassStatus(_ context.Context, before, after *awsv1.EC2NodeClass) (*awsv1.EC2NodeClass, error) {
	return after, w.noteWrite(fmt.Sprintf("status at %s: %d subnets", before.ResourceVersion, len(after.Status.Subnets)))
}

func TestApply(t *testing.T) {
	w := newWorld(t)
	before := class()
	before.ResourceVersion = "1"
	change, _, err := w.Reconcile(context.Background(), before, []*karpv1.NodeClaim{stamped("b", "", ""), stamped("a", "", "")})
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		before *awsv1.EC2NodeClass
		change Change
		fail   string
		want   []string
	}{
		"first time":       {before, change, "", []string{"claim a", "claim b", "metadata at 1", "status at 1+: 2 subnets"}},
		"a stamp fails":    {before, change, "claim a", []string{"claim a"}},
		"metadata fails":   {before, change, "metadata at 1", []string{"claim a", "claim b", "metadata at 1", "status at 1: 2 subnets"}},
		"nothing differs":  {change.Object, Change{Object: change.Object.DeepCopy()}, "", nil},
		"only status":      {withoutStatus(change.Object), Change{Object: change.Object}, "", []string{"status at 1: 2 subnets"}},
		"finalizer is off": {deletingClass(change.Object), Change{Object: withoutFinalizer(deletingClass(change.Object))}, "", []string{"metadata at 1"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			fw := &fakeWriter{fail: c.fail}
			err := Apply(context.Background(), fw, c.before, c.change)
			if (err != nil) != (c.fail != "") {
				t.Errorf("err %v", err)
			}
			if d := cmp.Diff(c.want, fw.log); d != "" {
				t.Error(d)
			}
		})
	}
}

func withoutStatus(nc *awsv1.EC2NodeClass) *awsv1.EC2NodeClass {
	nc = nc.DeepCopy()
	nc.Status = awsv1.EC2NodeClassStatus{}
	return nc
}

func deletingClass(nc *awsv1.EC2NodeClass) *awsv1.EC2NodeClass {
	nc = nc.DeepCopy()
	nc.DeletionTimestamp = &metav1.Time{Time: start}
	return nc
}

func withoutFinalizer(nc *awsv1.EC2NodeClass) *awsv1.EC2NodeClass {
	nc.Finalizers = nil
	return nc
}
