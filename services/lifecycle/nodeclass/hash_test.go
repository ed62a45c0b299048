package nodeclass

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
)

func device(name, size string) *awsv1.BlockDeviceMapping {
	q := resource.MustParse(size)
	return &awsv1.BlockDeviceMapping{DeviceName: &name, EBS: &awsv1.BlockDevice{VolumeSize: &q}}
}

func TestHash(t *testing.T) {
	if got := Hash(class()); got != "13110502481076343298" {
		t.Errorf("the hash of a plain class is %s: if the algorithm changed, change HashVersion too", got)
	}
	same := map[string]func(s *awsv1.EC2NodeClassSpec){
		"other selectors": func(s *awsv1.EC2NodeClassSpec) {
			s.SubnetSelectorTerms, s.SecurityGroupSelectorTerms = nil, nil
			s.AMISelectorTerms = []awsv1.AMISelectorTerm{{Alias: "al2023@v20250101"}}
		},
		"the family spelt out":   func(s *awsv1.EC2NodeClassSpec) { s.AMIFamily = ptr("AL2023") },
		"empty kubelet":          func(s *awsv1.EC2NodeClassSpec) { s.Kubelet = &awsv1.KubeletConfiguration{ClusterDNS: []string{}} },
		"empty user data":        func(s *awsv1.EC2NodeClassSpec) { s.UserData = ptr("") },
		"empty tags":             func(s *awsv1.EC2NodeClassSpec) { s.Tags = map[string]string{} },
		"empty metadata options": func(s *awsv1.EC2NodeClassSpec) { s.MetadataOptions = &awsv1.MetadataOptions{} },
		"capacity reservation terms": func(s *awsv1.EC2NodeClassSpec) {
			s.CapacityReservationSelectorTerms = []awsv1.CapacityReservationSelectorTerm{{ID: "cr-1"}}
		},
	}
	for name, edit := range same {
		t.Run("equal: "+name, func(t *testing.T) {
			nc := class()
			edit(&nc.Spec)
			if Hash(nc) != Hash(class()) {
				t.Error("differs")
			}
		})
	}
	seen := map[string]string{Hash(class()): "plain"}
	for name, edit := range map[string]func(s *awsv1.EC2NodeClassSpec){
		"family":    func(s *awsv1.EC2NodeClassSpec) { s.AMIFamily = ptr("Custom") },
		"user data": func(s *awsv1.EC2NodeClassSpec) { s.UserData = ptr("x") },
		"role":      func(s *awsv1.EC2NodeClassSpec) { s.Role = "x" },
		"profile":   func(s *awsv1.EC2NodeClassSpec) { s.InstanceProfile = ptr("x") },
		"tags":      func(s *awsv1.EC2NodeClassSpec) { s.Tags = map[string]string{"a": "b"} },
		"kubelet":   func(s *awsv1.EC2NodeClassSpec) { s.Kubelet = &awsv1.KubeletConfiguration{MaxPods: ptr[int32](5)} },
		"devices": func(s *awsv1.EC2NodeClassSpec) {
			s.BlockDeviceMappings = []*awsv1.BlockDeviceMapping{device("a", "1Gi")}
		},
		"raid":       func(s *awsv1.EC2NodeClassSpec) { s.InstanceStorePolicy = ptr(awsv1.InstanceStorePolicyRAID0) },
		"monitoring": func(s *awsv1.EC2NodeClassSpec) { s.DetailedMonitoring = ptr(true) },
		"metadata": func(s *awsv1.EC2NodeClassSpec) {
			s.MetadataOptions = &awsv1.MetadataOptions{HTTPTokens: ptr("optional")}
		},
		"public address":    func(s *awsv1.EC2NodeClassSpec) { s.AssociatePublicIPAddress = ptr(true) },
		"no public address": func(s *awsv1.EC2NodeClassSpec) { s.AssociatePublicIPAddress = ptr(false) },
		"context":           func(s *awsv1.EC2NodeClassSpec) { s.Context = ptr("x") },
	} {
		t.Run("differs: "+name, func(t *testing.T) {
			nc := class()
			edit(&nc.Spec)
			if other, ok := seen[Hash(nc)]; ok {
				t.Errorf("equals %s", other)
			}
			seen[Hash(nc)] = name
		})
	}
}

func TestHashCountsListsAsSetsAndQuantitiesByValue(t *testing.T) {
	a, b := class(), class()
	a.Spec.BlockDeviceMappings = []*awsv1.BlockDeviceMapping{device("a", "1Gi"), device("b", "2Gi"), device("b", "2Gi")}
	b.Spec.BlockDeviceMappings = []*awsv1.BlockDeviceMapping{device("b", "2048Mi"), device("a", "1024Mi")}
	text, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	var read awsv1.EC2NodeClass // as the API server gives it
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	if Hash(a) != Hash(b) || Hash(a) != Hash(&read) {
		t.Errorf("%s %s %s", Hash(a), Hash(b), Hash(&read))
	}
}

func stamped(name, hash, version string, conditions ...metav1.Condition) *karpv1.NodeClaim {
	c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: karpv1.NodeClaimStatus{Conditions: conditions}}
	if version != "" {
		c.Annotations = map[string]string{hashKey: hash, versionKey: version}
	}
	return c
}

func TestChangeOfHashVersionStampsWithoutDrift(t *testing.T) {
	nc := class()
	nc.Annotations = map[string]string{hashKey: "111", versionKey: "v4"}
	drifted := metav1.Condition{Type: karpv1.ConditionTypeDrifted, Status: metav1.ConditionTrue}
	claims := []*karpv1.NodeClaim{
		stamped("in-sync", "111", "v4"), stamped("known-drift", "222", "v4"), stamped("condition", "111", "v4", drifted),
		stamped("bare", "", ""), stamped("older-version", "333", "v3"), stamped("already", "444", HashVersion),
	}
	hash := Hash(nc)
	got := map[string]string{}
	for _, s := range stamp(nc, claims) {
		got[s.Before.Name] = s.After.Annotations[hashKey] + " " + s.After.Annotations[versionKey]
	}
	want := map[string]string{
		"in-sync": hash + " mw1", "known-drift": "222 mw1", "condition": "111 mw1", "bare": hash + " mw1", "older-version": hash + " mw1",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if nc.Annotations[hashKey] != hash || nc.Annotations[versionKey] != "mw1" {
		t.Errorf("%v", nc.Annotations)
	}
	nc.Spec.Role = "changed"
	if s := stamp(nc, claims); len(s) != 0 || nc.Annotations[hashKey] == hash {
		t.Error("a new spec under the same version must drift the claims, not stamp them")
	}
}

// fakeWriter writes down what it is asked for and gives objects a new resourceVersion.
type fakeWriter struct {
	log  []string
	fail string
}

func (w *fakeWriter) note(what string) error {
	w.log = append(w.log, what)
	if what == w.fail {
		return errors.New("conflict")
	}
	return nil
}

func (w *fakeWriter) UpdateNodeClaim(_ context.Context, before, after *karpv1.NodeClaim) (*karpv1.NodeClaim, error) {
	return after, w.note("claim " + before.Name)
}

func (w *fakeWriter) UpdateNodeClass(_ context.Context, before, after *awsv1.EC2NodeClass) (*awsv1.EC2NodeClass, error) {
	written := after.DeepCopy()
	written.ResourceVersion, written.Status = before.ResourceVersion+"+", before.Status
	return written, w.note("metadata at " + before.ResourceVersion)
}

func (w *fakeWriter) UpdateNodeClassStatus(_ context.Context, before, after *awsv1.EC2NodeClass) (*awsv1.EC2NodeClass, error) {
	return after, w.note(fmt.Sprintf("status at %s: %d subnets", before.ResourceVersion, len(after.Status.Subnets)))
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
		"metadata fails":   {before, change, "metadata at 1", []string{"claim a", "claim b", "metadata at 1"}},
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
