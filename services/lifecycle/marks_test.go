package lifecycle

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"millwright/planner/condition"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/events"
	"millwright/planner/drift"
	"millwright/planner/ledger"
	"millwright/planner/nodepool"
	"millwright/services/lifecycle/garbage"
	"millwright/services/lifecycle/nodeclass"
	"millwright/services/lifecycle/status"
	"millwright/store/audit"
)

// shown is a condition of a NodeClaim as status/reason/message; "" if it is not there.
func (r *rig) shown(name, kind string) string {
	if r.kube.claims[name] == nil {
		return ""
	}
	c := condition.Get(r.kube.claims[name].Status.Conditions, kind)
	if c == nil {
		return ""
	}
	return string(c.Status) + "/" + c.Reason + "/" + c.Message
}

// soon waits until the condition is shown so.
func (r *rig) soon(name, kind, want string) {
	r.t.Helper()
	r.run(fmt.Sprintf("%s of %s is %q", kind, name, want), func() bool { return r.shown(name, kind) == want })
}

// stays demands that the condition is shown so, second by second, until EC2 and every claim were looked at
// twice again.
func (r *rig) stays(name, kind, want string) {
	r.t.Helper()
	end, scans, last := r.now.Add(2*max(garbage.ScanEvery, fullEvery)+status.MarksEvery), 0, r.svc.found.Scanned()
	r.run(fmt.Sprintf("%s of %s stays %q", kind, name, want), func() bool {
		if at := r.svc.found.Scanned(); !at.Equal(last) {
			scans, last = scans+1, at
		}
		if got := r.shown(name, kind); got != want {
			r.t.Fatalf("%s of %s is %q, want %q", kind, name, got, want)
		}
		return scans >= 2 && !r.now.Before(end)
	})
}

// pod makes a pod come to the node.
func (r *rig) pod(name, node string) {
	r.observe(r.messages+1, events.Observation{Kind: events.KindPod, Op: events.OpUpsert, Name: "default/" + name, UID: uidOf(name), Object: &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: uidOf(name)}, Spec: corev1.PodSpec{NodeName: node},
	}})
}

const consolidatable = "True/Consolidatable/"

func TestConsolidatableFollowsTheQuietTime(t *testing.T) {
	r := newRig(t)
	r.change("default", func(p *karpv1.NodePool) { p.Spec.Disruption.ConsolidateAfter = karpv1.NewDuration(40 * time.Second) })
	name := r.plan()
	r.run("node ready", r.ready(name))
	initialized := condition.Get(r.kube.claims[name].Status.Conditions, "Initialized").LastTransitionTime.Time
	r.soon(name, "Consolidatable", consolidatable)
	if quiet := r.now.Sub(initialized); quiet < 40*time.Second || quiet > 44*time.Second {
		t.Errorf("consolidatable %s after it was initialized", quiet)
	}
	if !condition.IsTrue(r.kube.claims[name].Status.Conditions, "Ready") {
		t.Error("Ready depends on it")
	}

	node, came := r.kube.claims[name].Status.NodeName, r.now
	r.pod("first", node)
	r.soon(name, "Consolidatable", "")
	if told := r.kube.claims[name].Status.LastPodEventTime.Time; !told.Equal(came) {
		t.Errorf("lastPodEventTime is %s, the pod came at %s", told, came)
	}
	r.wait(5 * time.Second)
	r.pod("second", node) // too soon after the first to be reported, and yet it counts
	second := r.now
	r.soon(name, "Consolidatable", consolidatable)
	if quiet := r.now.Sub(second); quiet < 40*time.Second || quiet > 44*time.Second {
		t.Errorf("consolidatable %s after the last pod came", quiet)
	}
	if told := r.kube.claims[name].Status.LastPodEventTime.Time; !told.Equal(came) {
		t.Errorf("lastPodEventTime moved to %s", told)
	}

	r.change("default", func(p *karpv1.NodePool) { p.Spec.Disruption.ConsolidateAfter.Raw = karpv1.Never })
	r.soon(name, "Consolidatable", "")
	r.change("default", func(p *karpv1.NodePool) { p.Spec.Disruption.ConsolidateAfter = karpv1.NewDuration(0) })
	r.soon(name, "Consolidatable", consolidatable)
	r.change("default", func(p *karpv1.NodePool) { one := int64(1); p.Spec.Replicas = &one })
	r.soon(name, "Consolidatable", "")
}

func TestMarksStayWhileTheNodePoolCannotBeRead(t *testing.T) {
	r := newRig(t)
	r.change("default", func(p *karpv1.NodePool) { p.Spec.Disruption.ConsolidateAfter = karpv1.NewDuration(0) })
	name := r.plan()
	r.run("node ready", r.ready(name))
	r.soon(name, "Consolidatable", consolidatable)
	r.change("default", func(p *karpv1.NodePool) { p.Unreadable = "spec: no" })
	r.restart()
	r.pod("first", r.kube.claims[name].Status.NodeName)
	r.stays(name, "Consolidatable", consolidatable)
}

// drifting is a rig with a NodeClass that is resolved, a ready claim on it, and that claim's name.
func drifting(t *testing.T) (*rig, string) {
	t.Helper()
	r := newRig(t)
	r.resolve(func(nc *awsv1.EC2NodeClass) {})
	name := r.plan()
	r.run("node ready", r.ready(name))
	r.ec2.instances["i-0001"].SubnetID, r.ec2.instances["i-0001"].SecurityGroupIDs = "subnet-a", []string{"sg-a", "sg-b"}
	r.annotate(name, nodepool.HashAnnotations(r.kube.pools["default"]))
	r.wait(2 * garbage.ScanEvery)
	return r, name
}

// merged returns b over a.
func merged(a, b map[string]string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, a)
	maps.Copy(out, b)
	return out
}

func (r *rig) label(name string, labels map[string]string) {
	o := r.kube.claims[name].DeepCopy()
	o.Labels = merged(o.Labels, labels)
	r.kube.put(&r.kube.claims, o)
}

func (r *rig) annotate(name string, annotations map[string]string) {
	o := r.kube.claims[name].DeepCopy()
	o.Annotations = merged(o.Annotations, annotations)
	r.kube.put(&r.kube.claims, o)
}

// resolve gives the NodeClass a new generation with hash and status of it.
func (r *rig) resolve(change func(*awsv1.EC2NodeClass)) {
	nc := r.kube.classes["default"].DeepCopy()
	nc.Generation++
	nc.Status.AMIs = []awsv1.AMI{{ID: "ami-arm", Requirements: requires("arm64")}, {ID: "ami-1", Requirements: requires("amd64")}, {ID: "ami-0", Requirements: requires("amd64")}}
	nc.Status.Subnets = []awsv1.Subnet{{ID: "subnet-a", Zone: "eu-1a"}, {ID: "subnet-b", Zone: "eu-1b"}}
	nc.Status.SecurityGroups = []awsv1.SecurityGroup{{ID: "sg-b"}, {ID: "sg-a"}}
	nc.Status.Conditions[0].ObservedGeneration = nc.Generation
	change(nc)
	hash, version := nodeclass.Hasher{}.Current(nc)
	nc.Annotations = merged(nc.Annotations, map[string]string{awsv1.NodeClassHashAnnotationKey: hash, awsv1.NodeClassHashVersionAnnotationKey: version})
	r.kube.put(&r.kube.classes, nc)
}

func requires(arch string) []corev1.NodeSelectorRequirement {
	return []corev1.NodeSelectorRequirement{{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{arch}}}
}

func TestDriftIsShownWithItsReasonUntilItIsGone(t *testing.T) {
	text := "echo"
	requirements := func(list ...karpv1.NodeSelectorRequirementWithMinValues) func(*karpv1.NodePool) {
		return func(p *karpv1.NodePool) { p.Spec.Template.Spec.Requirements = list }
	}
	entry := func(key string, op corev1.NodeSelectorOperator, values ...string) karpv1.NodeSelectorRequirementWithMinValues {
		return karpv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: op, Values: values}
	}
	cases := map[string]struct {
		want  string
		pool  func(*karpv1.NodePool)
		class func(*awsv1.EC2NodeClass)
		// also is something else that differs.
		also func(*rig, string)
	}{
		"nothing":          {},
		"a template label": {want: "NodePoolDrifted", pool: func(p *karpv1.NodePool) { p.Spec.Template.Labels = map[string]string{"team": "red"} }},
		"expireAfter":      {want: "NodePoolDrifted", pool: func(p *karpv1.NodePool) { p.Spec.Template.Spec.ExpireAfter = karpv1.NewDuration(time.Hour * 9999) }},
		"weight":           {pool: func(p *karpv1.NodePool) { w := int32(7); p.Spec.Weight = &w }},
		"a budget":         {pool: func(p *karpv1.NodePool) { p.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "0"}} }},
		"a requirement the labels do not meet": {want: "RequirementsDrifted",
			pool: requirements(entry("karpenter.sh/capacity-type", corev1.NodeSelectorOpIn, "spot"))},
		"a requirement on a label the claim lacks": {want: "RequirementsDrifted", pool: requirements(entry("team", corev1.NodeSelectorOpExists))},
		"a requirement the labels meet":            {pool: requirements(entry("karpenter.sh/capacity-type", corev1.NodeSelectorOpNotIn, "spot"))},
		"a negative requirement on a missing label": {
			pool: requirements(entry("team", corev1.NodeSelectorOpNotIn, "red"), entry("size", corev1.NodeSelectorOpDoesNotExist))},
		"user data":           {want: "NodeClassDrift", class: func(nc *awsv1.EC2NodeClass) { nc.Spec.UserData = &text }},
		"a newer image":       {want: "AMIDrift", class: func(nc *awsv1.EC2NodeClass) { nc.Status.AMIs[1].ID = "ami-2" }},
		"an image for others": {class: func(nc *awsv1.EC2NodeClass) { nc.Status.AMIs[0].ID = "ami-2" }},
		"no image":            {class: func(nc *awsv1.EC2NodeClass) { nc.Status.AMIs = nil }},
		"a security group more": {want: "SecurityGroupDrift", class: func(nc *awsv1.EC2NodeClass) {
			nc.Status.SecurityGroups = append(nc.Status.SecurityGroups, awsv1.SecurityGroup{ID: "sg-c"})
		}},
		"no security group": {class: func(nc *awsv1.EC2NodeClass) { nc.Status.SecurityGroups = nil }},
		"another subnet":    {want: "SubnetDrift", class: func(nc *awsv1.EC2NodeClass) { nc.Status.Subnets = nc.Status.Subnets[1:] }},
		"no subnet":         {class: func(nc *awsv1.EC2NodeClass) { nc.Status.Subnets = nil }},
		"a status of an old spec": {class: func(nc *awsv1.EC2NodeClass) {
			nc.Status.AMIs[1].ID = "ami-2"
			nc.Status.Conditions[0].ObservedGeneration--
		}},
		"the first of several": {want: "NodePoolDrifted",
			pool:  func(p *karpv1.NodePool) { p.Spec.Template.Annotations = map[string]string{"a": "b"} },
			class: func(nc *awsv1.EC2NodeClass) { nc.Status.Subnets = nc.Status.Subnets[1:] }},
		"a hash of another algorithm": {also: func(r *rig, name string) {
			r.annotate(name, map[string]string{karpv1.NodePoolHashAnnotationKey: "1", karpv1.NodePoolHashVersionAnnotationKey: "v2",
				awsv1.NodeClassHashAnnotationKey: "1", awsv1.NodeClassHashVersionAnnotationKey: "v3"})
		}},
		"a type that is not on offer": {want: "InstanceTypeNotFound", also: func(r *rig, name string) {
			o := r.kube.claims[name].DeepCopy()
			o.Labels[corev1.LabelInstanceTypeStable], o.CreationTimestamp = "m1.old", metav1.NewTime(r.now.Add(-61*time.Minute))
			r.kube.put(&r.kube.claims, o)
		}},
		"a NodeClass that is not there": {class: func(nc *awsv1.EC2NodeClass) { nc.Spec.UserData = &text }, also: func(r *rig, _ string) { delete(r.kube.classes, "default") }},
	}
	for title, tc := range cases {
		t.Run(title, func(t *testing.T) {
			r, name := drifting(t)
			if got := r.shown(name, "Drifted"); got != "" {
				t.Fatalf("drifted at once: %s", got)
			}
			pool, class := r.kube.pools["default"], r.kube.classes["default"]
			if tc.class != nil {
				r.resolve(tc.class)
			}
			if tc.pool != nil {
				r.change("default", tc.pool)
			}
			if tc.also != nil {
				tc.also(r, name)
			}
			if tc.want == "" {
				r.stays(name, "Drifted", "")
				return
			}
			want := "True/" + tc.want + "/" + tc.want
			r.soon(name, "Drifted", want)
			since := condition.Get(r.kube.claims[name].Status.Conditions, "Drifted").LastTransitionTime
			r.stays(name, "Drifted", want)
			if got := condition.Get(r.kube.claims[name].Status.Conditions, "Drifted").LastTransitionTime; !got.Equal(&since) {
				t.Errorf("the transition moved from %s to %s", since, got)
			}
			if tc.also != nil {
				return
			}
			r.change("default", func(p *karpv1.NodePool) { p.Spec = pool.Spec })
			r.resolve(func(nc *awsv1.EC2NodeClass) { nc.Spec = class.Spec })
			r.soon(name, "Drifted", "")
		})
	}
}

// An EC2NodeClass that was edited while no controller was running has a hash of our version: if the claim has
// another, that is drift.
func TestAnEditWhileNobodyRanIsDriftUnderOurOwnHashVersion(t *testing.T) {
	r, name := drifting(t)
	nc := r.kube.classes["default"].DeepCopy()
	text := "echo"
	nc.Spec.UserData = &text
	r.kube.put(&r.kube.classes, nc) // its annotation is still of the old spec
	r.restart()
	r.soon(name, "Drifted", "True/NodeClassDrift/NodeClassDrift")
}

// judged are the verdicts on record, each as claim: reason, after they were derived again from their own
// facts.
func (r *rig) judged() (verdicts []string) {
	r.t.Helper()
	records, err := r.log.Read(r.t.Context(), 1, 10_000)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, rec := range records {
		if ledger.Kind(rec.Kind) != ledger.KindDriftJudged {
			continue
		}
		e, err := audit.Decode(rec)
		if err != nil {
			r.t.Fatal(err)
		}
		p := e.Payload.(*ledger.DriftJudged)
		if _, err := drift.Replay(p); err != nil {
			r.t.Errorf("record %d does not replay: %v", rec.Seq, err)
		}
		for _, c := range p.Claims {
			verdicts = append(verdicts, c.Claim+": "+c.Reason)
		}
	}
	return verdicts
}

func TestAVerdictIsRecordedWithItsFactsBeforeItIsTold(t *testing.T) {
	r, name := drifting(t)
	if got := r.judged(); len(got) > 0 {
		t.Fatalf("recorded of a claim that never drifted: %v", got)
	}
	r.recorded = map[ledger.Kind]func(){ledger.KindDriftJudged: func() {
		if got := r.shown(name, "Drifted"); got != "" && len(r.judged()) == 1 {
			t.Errorf("Drifted is %s before that is recorded", got)
		}
	}}
	image := func(id string) func(*awsv1.EC2NodeClass) {
		return func(nc *awsv1.EC2NodeClass) { nc.Status.AMIs[1].ID = id }
	}
	r.resolve(image("ami-2"))
	r.soon(name, "Drifted", "True/AMIDrift/AMIDrift")
	r.stays(name, "Drifted", "True/AMIDrift/AMIDrift")
	want := []string{name + ": AMIDrift"}
	if got := r.judged(); !slices.Equal(got, want) {
		t.Fatalf("recorded %v, want %v", got, want)
	}
	r.restart() // nothing says that the log has the facts
	r.stays(name, "Drifted", "True/AMIDrift/AMIDrift")
	r.resolve(image("ami-1"))
	r.soon(name, "Drifted", "")
	r.stays(name, "Drifted", "")
	want = append(want, name+": AMIDrift", name+": ")
	if got := r.judged(); !slices.Equal(got, want) {
		t.Fatalf("recorded %v, want %v", got, want)
	}
}

func TestAVerdictThatCannotBeRecordedIsNotTold(t *testing.T) {
	r, name := drifting(t)
	r.logAway = true
	r.resolve(func(nc *awsv1.EC2NodeClass) { nc.Status.AMIs[1].ID = "ami-2" })
	r.wait(30 * time.Second)
	if got := r.shown(name, "Drifted"); got != "" {
		t.Fatalf("Drifted is %s, and nothing says why", got)
	}
	r.logAway = false
	r.soon(name, "Drifted", "True/AMIDrift/AMIDrift")
	if got := r.judged(); len(got) != 1 {
		t.Errorf("recorded %v", got)
	}
}

func TestWhatIsNotLaunchedHasNoMarks(t *testing.T) {
	r := newRig(t)
	r.change("default", func(p *karpv1.NodePool) { p.Spec.Disruption.ConsolidateAfter = karpv1.NewDuration(0) })
	r.resolve(func(nc *awsv1.EC2NodeClass) { nc.Status.Conditions[0].Status = metav1.ConditionUnknown })
	name := r.plan()
	r.soon(name, "Launched", "Unknown/NodeClassReadinessUnknown/NodeClass is in Ready=Unknown")
	o := r.kube.claims[name].DeepCopy()
	o.Annotations = merged(o.Annotations, map[string]string{karpv1.NodePoolHashAnnotationKey: "1", karpv1.NodePoolHashVersionAnnotationKey: nodepool.HashVersion})
	o.Status.Conditions = append(o.Status.Conditions, metav1.Condition{Type: "Drifted", Status: "True", Reason: "AMIDrift", Message: "AMIDrift"})
	r.kube.put(&r.kube.claims, o)
	r.soon(name, "Drifted", "")
	if got := r.shown(name, "Consolidatable"); got != "" {
		t.Errorf("Consolidatable is %s", got)
	}
}

// Pods that come and go on every node at once cost few writes a second, and no claim is forgotten.
func TestMarksOfManyClaimsAreWrittenInTurn(t *testing.T) {
	r := newRig(t)
	const n = 3 * status.MarksMax
	names := r.readyClaims(n)
	r.wait(5 * time.Second)
	r.change("default", func(p *karpv1.NodePool) { p.Spec.Template.Labels = map[string]string{"team": "red"} })
	for _, name := range names {
		r.annotate(name, map[string]string{karpv1.NodePoolHashAnnotationKey: "1", karpv1.NodePoolHashVersionAnnotationKey: nodepool.HashVersion})
	}
	writes := func() int { return strings.Count(strings.Join(r.trail, " "), "update nodeclaim status") }
	written, most := writes(), 0
	r.run("all have drifted", func() bool {
		now := writes()
		most, written = max(most, now-written), now
		for _, name := range names {
			if r.shown(name, "Drifted") == "" {
				return false
			}
		}
		return true
	})
	if most > status.MarksMax {
		t.Errorf("%d status writes within a second", most)
	}
	if got := r.judged(); len(got) != n || r.count(ledger.KindDriftJudged) > 2*n/status.MarksMax {
		t.Errorf("%d verdicts in %d records", len(got), r.count(ledger.KindDriftJudged))
	}
}

// A recommendation of EC2 to leave an instance makes its claim drift where a DisruptionPolicy says so, and no
// longer once none does (disruption §8).
func TestARecommendationIsFollowedByPolicy(t *testing.T) {
	r, name := drifting(t)
	instance := r.led.Claim(name).Instance.InstanceID
	say := func(version string, said mwv1alpha1.RebalanceRecommendation) {
		p := &mwv1alpha1.DisruptionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "spot", UID: "policy", ResourceVersion: version}}
		p.Spec.RebalanceRecommendation = said
		r.observe(r.messages+1, events.Observation{Kind: events.KindDisruptionPolicy, Op: events.OpUpsert, UID: p.UID, Name: p.Name, ResourceVersion: version, Object: p})
	}
	drifted := func() bool { return strings.Contains(r.shown(name, "Drifted"), "RebalanceRecommended") }
	r.message(events.RebalanceRecommendation, instance, time.Time{})
	r.label(name, map[string]string{karpv1.CapacityTypeLabelKey: karpv1.CapacityTypeSpot})
	r.wait(10 * time.Second)
	if drifted() {
		t.Error("it is followed although nobody says so")
	}
	r.label(name, map[string]string{karpv1.CapacityTypeLabelKey: karpv1.CapacityTypeOnDemand})
	say("1", mwv1alpha1.RebalanceReplace)
	r.wait(10 * time.Second)
	if drifted() {
		t.Error("it is followed although the instance is no spot instance")
	}
	r.label(name, map[string]string{karpv1.CapacityTypeLabelKey: karpv1.CapacityTypeSpot})
	r.run("it is followed", drifted)
	if n := r.count(ledger.KindDriftJudged); n != 1 {
		t.Errorf("%d verdicts are recorded", n)
	}
	say("2", mwv1alpha1.RebalanceIgnore)
	r.run("it is not followed any more", func() bool { return !drifted() })
	if n := len(r.doomsOf(name)); n != 0 {
		t.Errorf("%d dooms", n)
	}
}
