package nodeclass

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/services/internal/ec2"
)

// conditionTexts renders conditions as "Type=Status/Reason/Message".
func conditionTexts(nc *awsv1.EC2NodeClass) []string {
	var out []string
	for _, c := range nc.Status.Conditions {
		out = append(out, fmt.Sprintf("%s=%s/%s/%s", c.Type, c.Status, c.Reason, c.Message))
	}
	return out
}

func (w *world) reconcile(t *testing.T, nc *awsv1.EC2NodeClass) Change {
	t.Helper()
	c, _, err := w.Reconcile(context.Background(), nc, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The rules: ec2 §3.
func TestReconcileSoundClass(t *testing.T) {
	w := newWorld(t)
	before := class()
	c, again, err := w.Reconcile(context.Background(), before, nil)
	if err != nil {
		t.Fatal(err)
	}
	nc := c.Object
	if d := cmp.Diff([]string{
		"AMIsReady=True/AMIsReady/", "CapacityReservationsReady=True/CapacityReservationsReady/", "InstanceProfileReady=True/InstanceProfileReady/", "PlacementGroupReady=True/PlacementGroupReady/", "SecurityGroupsReady=True/SecurityGroupsReady/",
		"SubnetsReady=True/SubnetsReady/", "ValidationSucceeded=True/ValidationSucceeded/", "Ready=True/Ready/",
	}, conditionTexts(nc)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]awsv1.Subnet{{ID: "subnet-b", Zone: "eu-west-1b", ZoneID: "euw1-az2"}, {ID: "subnet-a", Zone: "eu-west-1a", ZoneID: "euw1-az1"}}, nc.Status.Subnets); d != "" {
		t.Error(d)
	}
	var images []string
	for _, a := range nc.Status.AMIs {
		images = append(images, a.ID)
	}
	if d := cmp.Diff([]string{"ami-gpu", "ami-arm", "ami-x86"}, images); d != "" {
		t.Error("newest first, then id:", d)
	}
	if again != time.Minute || len(c.Events) != len(nc.Status.Conditions) || Ready(nc) != nil {
		t.Errorf("again %v, events %v, ready %v", again, c.Events, Ready(nc))
	}
	if nc.Finalizers[0] != awsv1.TerminationFinalizer || nc.Annotations[hashKey] != ownHash(before) || nc.Annotations[versionKey] != "v5" {
		t.Errorf("metadata: %v %v", nc.Finalizers, nc.Annotations)
	}
	for _, x := range nc.Status.Conditions {
		if x.ObservedGeneration != 3 {
			t.Errorf("%s observed generation %d", x.Type, x.ObservedGeneration)
		}
	}
	if before.Status.Conditions != nil || before.Finalizers != nil || before.Annotations != nil {
		t.Error("changed its input")
	}
}

func TestReconcileIsStable(t *testing.T) {
	w := newWorld(t)
	first := w.reconcile(t, class())
	w.now = w.now.Add(10 * time.Minute)
	second := w.reconcile(t, first.Object)
	if d := cmp.Diff(first.Object, second.Object); d != "" {
		t.Errorf("nothing changed outside, but: %s", d)
	}
}

func TestCaches(t *testing.T) {
	w := newWorld(t)
	w.publishMissing()
	w.reconcile(t, class())
	once := fmt.Sprint(w.calls)
	w.now = w.now.Add(59 * time.Second)
	w.reconcile(t, class())
	want := fmt.Sprint(w.calls)
	if strings.Contains(want, "subnets:2") || w.calls["ssm"] != 5 {
		t.Errorf("asked again within a minute: first %s, then %s", once, want)
	}
	w.now = w.now.Add(2 * time.Second)
	w.reconcile(t, class())
	if w.calls["subnets"] != 2 || w.calls["groups"] != 2 || w.calls["images"] != 2 || w.calls["ssm"] != 5 {
		t.Errorf("after a minute: %v", w.calls)
	}
	w.now = w.now.Add(24 * time.Hour)
	w.reconcile(t, class())
	if w.calls["ssm"] != 10 {
		t.Errorf("after a day: %v", w.calls)
	}
}

func TestConditions(t *testing.T) {
	cases := map[string]struct {
		world func(*world)
		spec  func(*awsv1.EC2NodeClassSpec)
		want  []string // among the conditions
		event string   // within some event
	}{
		"no subnets match": {
			world: func(w *world) { w.subnets = nil },
			want: []string{"SubnetsReady=False/SubnetsNotFound/SubnetSelector did not match any Subnets",
				"ValidationSucceeded=False/DependenciesNotReady/Awaiting AMI, Instance Profile, Security Group, and Subnet resolution",
				"Ready=False/UnhealthyDependents/ValidationSucceeded=False, SubnetsReady=False"},
			event: "SubnetsReady Status condition transitioned, Type: SubnetsReady, Status: Unknown -> False, Reason: SubnetsNotFound, Message: SubnetSelector did not match any Subnets",
		},
		"no security groups match": {
			world: func(w *world) { w.groups = nil },
			want:  []string{"SecurityGroupsReady=False/SecurityGroupsNotFound/SecurityGroupSelector did not match any SecurityGroups"},
		},
		"no parameter of the alias exists": {
			world: func(w *world) { w.parameters = nil },
			want:  []string{"AMIsReady=False/AMINotFound/AMISelector did not match any AMIs"},
			event: `failed to discover any AMIs for alias "al2023@latest" on Kubernetes 1.32`,
		},
		"images are gone": {
			world: func(w *world) { w.images = nil },
			want:  []string{"AMIsReady=False/AMINotFound/AMISelector did not match any AMIs"},
		},
		"all images are of an architecture that Kubernetes does not know": {
			world: func(w *world) {
				w.images = []ec2.Image{{ID: "ami-mac", Architecture: "arm64_mac", Name: "m"}, {ID: "ami-old", Architecture: "i386", Name: "o"}}
			},
			spec: func(s *awsv1.EC2NodeClassSpec) {
				s.AMIFamily, s.AMISelectorTerms = ptr("Custom"), []awsv1.AMISelectorTerm{{ID: "ami-mac"}, {ID: "ami-old"}}
			},
			want: []string{`AMIsReady=False/AMINotFound/AMISelector did not match any AMIs that can be used: ` +
				`ami-mac (architecture "arm64_mac" is not supported), ami-old (architecture "i386" is not supported)`},
			event: `skipped ami-old (architecture "i386" is not supported)`,
		},
		"AL2 on a Kubernetes without AL2": {
			world: func(w *world) { w.version = "1.33" },
			spec:  func(s *awsv1.EC2NodeClassSpec) { s.AMISelectorTerms[0].Alias = "al2@latest" },
			want:  []string{"AMIsReady=False/UnsupportedAlias/AL2 aliases are no longer supported on EKS 1.33+ (see https://docs.aws.amazon.com/eks/latest/userguide/eks-ami-deprecation-faqs.html)"},
		},
		"an alias that is none": {
			spec:  func(s *awsv1.EC2NodeClassSpec) { s.AMISelectorTerms[0].Alias = "al2023@a@b" },
			want:  []string{"AMIsReady=False/UnsupportedAlias/spec.amiSelectorTerms[0].alias: 'alias' is improperly formatted, must match the format 'family@version', got \"al2023@a@b\""},
			event: "spec.amiSelectorTerms[0].alias",
		},
		"an alias of an unknown family": {
			spec:  func(s *awsv1.EC2NodeClassSpec) { s.AMISelectorTerms[0].Alias = "ubuntu@latest" },
			event: "Message: spec.amiSelectorTerms[0].alias: family is not supported",
		},
		"an unknown family": {
			spec: func(s *awsv1.EC2NodeClassSpec) {
				s.AMIFamily = ptr("Plan9")
				s.AMISelectorTerms = []awsv1.AMISelectorTerm{{ID: "ami-x86"}}
			},
			want:  []string{"AMIsReady=True/AMIsReady/", "CapacityReservationsReady=True/CapacityReservationsReady/", "Ready=False/UnhealthyDependents/ValidationSucceeded=False"},
			event: `spec.amiFamily: unknown family "Plan9"`,
		},
		"contradictory subnet terms": {
			spec: func(s *awsv1.EC2NodeClassSpec) { s.SubnetSelectorTerms[0].ID = "subnet-1" },
			want: []string{"SubnetsReady=False/SubnetsNotFound/spec.subnetSelectorTerms[0]: 'id' is mutually exclusive, cannot be set with a combination of other fields in a subnet selector term"},
		},
		"a restricted tag": {
			spec: func(s *awsv1.EC2NodeClassSpec) { s.Tags = map[string]string{"karpenter.sh/nodepool": "x"} },
			want: []string{`ValidationSucceeded=False/TagValidationFailed/spec.tags: tag "karpenter.sh/nodepool" contains a restricted tag matching "karpenter.sh/nodepool"`},
		},
		"the tag of a cluster": {
			spec: func(s *awsv1.EC2NodeClassSpec) { s.Tags = map[string]string{"kubernetes.io/cluster/other": "owned"} },
			want: []string{`ValidationSucceeded=False/TagValidationFailed/spec.tags: tag "kubernetes.io/cluster/other" contains a restricted tag matching "kubernetes.io/cluster"`},
		},
		"broken Bottlerocket settings": {
			spec: func(s *awsv1.EC2NodeClassSpec) {
				s.AMIFamily, s.UserData = ptr("Bottlerocket"), ptr("[settings")
				s.AMISelectorTerms = []awsv1.AMISelectorTerm{{ID: "ami-x86"}}
			},
			event: "spec.userData: invalid userData",
		},
		"too much user data": {
			spec:  func(s *awsv1.EC2NodeClassSpec) { s.UserData = ptr("#" + noise(30000)) },
			event: "UserDataSizeLimitExceeded",
		},
		"neither role nor profile": {
			spec:  func(s *awsv1.EC2NodeClassSpec) { s.Role = "" },
			event: "spec.role: must specify exactly one of ['role', 'instanceProfile']",
		},
		"a spec with nothing in it": {
			spec: func(s *awsv1.EC2NodeClassSpec) { *s = awsv1.EC2NodeClassSpec{} },
			want: []string{"Ready=False/UnhealthyDependents/ValidationSucceeded=False, SubnetsReady=False, SecurityGroupsReady=False, InstanceProfileReady=False, AMIsReady=False"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w, nc := newWorld(t), class()
			if c.world != nil {
				c.world(w)
			}
			if c.spec != nil {
				c.spec(&nc.Spec)
			}
			change := w.reconcile(t, nc)
			have := strings.Join(conditionTexts(change.Object), "\n")
			for _, want := range c.want {
				if !strings.Contains("\n"+have+"\n", "\n"+want+"\n") {
					t.Errorf("no condition %s in\n%s", want, have)
				}
			}
			var events string
			for _, e := range change.Events {
				events += e.Reason + " " + e.Message + "\n"
			}
			if c.event != "" && !strings.Contains(events, c.event) {
				t.Errorf("no event with %q in\n%s", c.event, events)
			}
			var f *ec2.Failure
			if err := Ready(change.Object); !errors.As(err, &f) || f.Class != ec2.NotReady {
				t.Errorf("a launch would be refused with %v", err)
			}
			for _, e := range w.reconcile(t, change.Object).Events {
				if e.Reason != "ResolutionIncomplete" {
					t.Errorf("told again: %s", e.Message)
				}
			}
		})
	}
}

func ptr[T any](v T) *T { return &v }

func TestCloudErrorsKeepTheOldStatus(t *testing.T) {
	w := newWorld(t)
	good := w.reconcile(t, class()).Object
	w.now = w.now.Add(2 * time.Minute)
	w.fail["subnets"] = errors.New("connection reset")
	c, again, err := w.Reconcile(context.Background(), good, nil)
	if err == nil || again != time.Minute {
		t.Errorf("err %v, again %v", err, again)
	}
	if d := cmp.Diff(good.Status, c.Object.Status); d != "" {
		t.Errorf("status moved: %s", d)
	}

	edited := good.DeepCopy()
	edited.Generation++
	edited.Spec.SubnetSelectorTerms[0].Tags["more"] = "tags"
	c, _, _ = w.Reconcile(context.Background(), edited, nil)
	ready := meta.FindStatusCondition(c.Object.Status.Conditions, karpv1.ConditionTypeReady)
	if ready.Status != metav1.ConditionUnknown || ready.Reason != "ReconcilingDependents" || !strings.Contains(ready.Message, "SubnetsReady=True") {
		t.Errorf("a new spec that cannot be resolved yet: %+v", ready)
	}
	if ec2.Classify(Ready(c.Object)) != ec2.Transient {
		t.Error("launches must wait")
	}
}

// withoutEndpoints is a cloud of which the network reaches EC2 alone: what is sent to SSM and IAM is never
// answered.
type withoutEndpoints struct{ *fakeCloud }

// unanswered ends as a call of ec2.Client does.
func unanswered(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, ec2.DefaultCallTimeout)
	defer cancel()
	<-ctx.Done()
	return ctx.Err()
}

func (w withoutEndpoints) SSMParameter(ctx context.Context, _ string) (string, error) {
	return "", unanswered(ctx)
}

func (w withoutEndpoints) InstanceProfile(ctx context.Context, _ string) (ec2.InstanceProfile, error) {
	return ec2.InstanceProfile{}, unanswered(ctx)
}

func (w withoutEndpoints) EnsureInstanceProfile(ctx context.Context, _ ec2.InstanceProfile) error {
	return unanswered(ctx)
}

func (w withoutEndpoints) DescribeSubnets(ctx context.Context, terms []awsv1.SubnetSelectorTerm) ([]ec2.Subnet, error) {
	time.Sleep(100 * time.Millisecond)
	return w.fakeCloud.DescribeSubnets(ctx, terms)
}

func TestCallsThatHangLeaveTimeToTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.cfg.Cloud = withoutEndpoints{w.fakeCloud}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // what an effect of lifecycle has
		defer cancel()
		c, _, err := w.Reconcile(ctx, class(), nil)
		if err == nil {
			t.Error("SSM and IAM do not answer, and there is no error")
		}
		if len(c.Object.Status.Subnets) != 2 || len(c.Object.Status.SecurityGroups) != 1 {
			t.Errorf("EC2 answers, and there are subnets %v and groups %v", c.Object.Status.Subnets, c.Object.Status.SecurityGroups)
		}
		if err := ctx.Err(); err != nil {
			t.Errorf("there is no time left to write what was found: %v", err)
		}
	})
}

func TestClusterCIDR(t *testing.T) {
	w := newWorld(t)
	w.cidr = ""
	c, _, err := w.Reconcile(context.Background(), class(), nil)
	if err == nil || !strings.Contains(strings.Join(conditionTexts(c.Object), "\n"), "ValidationSucceeded=False/ClusterCIDRResolutionFailed/Failed to detect the cluster CIDR") {
		t.Errorf("%v %v", err, conditionTexts(c.Object))
	}
}

func TestReadyOfUnusableClasses(t *testing.T) {
	deleting := class()
	deleting.DeletionTimestamp = &metav1.Time{Time: start}
	stale := newWorld(t).reconcile(t, class()).Object
	stale.Generation++
	cases := map[string]struct {
		nc     *awsv1.EC2NodeClass
		class  ec2.Class
		reason string
	}{
		"missing":        {nil, ec2.NoCapacity, "NodeClassNotFound"},
		"deleting":       {deleting, ec2.NoCapacity, "NodeClassTerminating"},
		"not reconciled": {class(), ec2.Transient, "NodeClassReadinessUnknown"},
		"edited since":   {stale, ec2.Transient, "NodeClassReadinessUnknown"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var f *ec2.Failure
			if err := Ready(c.nc); !errors.As(err, &f) || f.Class != c.class || f.Reason != c.reason {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestInstanceProfiles(t *testing.T) {
	w := newWorld(t)
	nc := w.reconcile(t, class()).Object
	first := nc.Status.InstanceProfile
	p := w.profiles[first]
	if p.Role != "node-role" || p.Path != "/karpenter/eu-west-1/blue/11111111-2222/" || !strings.HasPrefix(first, "blue_") {
		t.Errorf("made %+v", p)
	}
	if d := cmp.Diff(map[string]string{
		"kubernetes.io/cluster/blue": "owned", "eks:eks-cluster-name": "blue", "karpenter.k8s.aws/ec2nodeclass": "default", "topology.kubernetes.io/region": "eu-west-1",
	}, p.Tags); d != "" {
		t.Error(d)
	}
	if again := w.reconcile(t, class()).Object; again.Status.InstanceProfile != first {
		t.Error("a lost status write made another profile")
	}

	w.roles = append(w.roles, "other-role")
	nc.Spec.Role = "path/to/other-role"
	second := w.reconcile(t, nc).Object.Status.InstanceProfile
	if second == first || w.profiles[second].Role != "other-role" || w.profiles[first].Role != "node-role" {
		t.Errorf("a new role must get a new profile and leave the old one: %q %v", second, w.profiles)
	}

	adopted := class()
	adopted.Status.InstanceProfile = "blue_123"
	w.profiles["blue_123"] = ec2.InstanceProfile{Name: "blue_123", Role: "node-role"}
	if got := w.reconcile(t, adopted).Object.Status.InstanceProfile; got != "blue_123" {
		t.Errorf("a profile with the right role was replaced by %q", got)
	}

	delete(w.profiles, first) // by others; launches from the class fail until it is made again
	w.now = w.now.Add(profileTTL)
	mended := class()
	mended.Status.InstanceProfile = first
	if c, again, err := w.Reconcile(context.Background(), mended, nil); err != nil || c.Object.Status.InstanceProfile != first || w.profiles[first].Role != "node-role" ||
		again+profileTTL >= 5*time.Minute { // what a launch may take
		t.Errorf("a profile that others deleted is not made again in time: %v, next look after %s, %v", w.profiles[first], again, err)
	}

	given := class()
	given.Spec.Role, given.Spec.InstanceProfile = "", ptr("mine")
	if got := w.reconcile(t, given).Object.Status.InstanceProfile; got != "mine" {
		t.Errorf("got %q", got)
	}
}

func TestMissingRole(t *testing.T) {
	w := newWorld(t)
	w.roles = nil
	c, again, err := w.Reconcile(context.Background(), class(), nil)
	if err == nil || again != time.Minute {
		t.Errorf("err %v, again %v", err, again)
	}
	x := meta.FindStatusCondition(c.Object.Status.Conditions, awsv1.ConditionTypeInstanceProfileReady)
	if x.Status != metav1.ConditionUnknown || !strings.Contains(x.Message, `spec.role: role "node-role" not found`) {
		t.Errorf("%+v", x)
	}
	_, _, _ = w.Reconcile(context.Background(), class(), nil)
	if w.calls["ensure"] != 1 {
		t.Errorf("IAM was asked %d times within a minute", w.calls["ensure"])
	}
}

func TestDeletion(t *testing.T) {
	w := newWorld(t)
	nc := w.reconcile(t, class()).Object
	nc.DeletionTimestamp = &metav1.Time{Time: w.now}
	w.profiles[legacyProfileName(w.cfg, nc)] = ec2.InstanceProfile{Name: legacyProfileName(w.cfg, nc), Tags: map[string]string{awsv1.TagNodeClass: "default"}}
	var claims []*karpv1.NodeClaim
	for _, n := range []string{"g", "f", "e", "d", "c", "b", "a"} {
		claims = append(claims, &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: n}})
	}
	c, again, err := w.Reconcile(context.Background(), nc, claims)
	if err != nil || again != 10*time.Minute || len(c.Object.Finalizers) != 1 || len(w.deletedTemplates) != 0 {
		t.Fatalf("in use: %v %v %v %v", err, again, c.Object.Finalizers, w.deletedTemplates)
	}
	if e := c.Events[0]; e.Reason != "WaitingOnNodeClaimTermination" || e.Type != corev1.EventTypeNormal || e.Message != "Waiting on NodeClaim termination for a, b, c, d, e and 2 other(s)" {
		t.Errorf("%+v", e)
	}
	w.fail["profiles"] = errors.New("throttled")
	if c, _, err = w.Reconcile(context.Background(), nc, nil); err == nil || len(c.Object.Finalizers) != 1 {
		t.Error("the finalizer went although cleaning up did not succeed")
	}
	delete(w.fail, "profiles")
	c, _, err = w.Reconcile(context.Background(), nc, nil)
	if err != nil || len(c.Object.Finalizers) != 0 || len(w.profiles) != 0 || len(w.deletedTemplates) != 1 {
		t.Errorf("not cleaned up: %v %v %v %v", err, c.Object.Finalizers, w.profiles, w.deletedTemplates)
	}
}

// A class may have been changed from a role to a profile since Karpenter made one for the role; nothing else
// finds that.
func TestDeletionOfAClassThatHadARole(t *testing.T) {
	legacy := func(nc *awsv1.EC2NodeClass, cluster string) string {
		return legacyProfileName(Config{Cluster: cluster, Region: "eu-west-1"}, nc)
	}
	for sentence, c := range map[string]struct {
		change func(*awsv1.EC2NodeClass)
		left   int
	}{
		"a profile of the user's":            {change: func(nc *awsv1.EC2NodeClass) { nc.Spec.Role, nc.Spec.InstanceProfile = "", ptr("mine") }},
		"a spec that cannot be read":         {change: func(nc *awsv1.EC2NodeClass) { nc.Spec, nc.Unreadable = awsv1.EC2NodeClassSpec{}, "odd" }},
		"the profile itself, now the user's": {change: func(nc *awsv1.EC2NodeClass) { nc.Spec.Role, nc.Spec.InstanceProfile = "", ptr(legacy(nc, "blue")) }, left: 1},
	} {
		t.Run(sentence, func(t *testing.T) {
			w, nc := newWorld(t), class()
			nc.Finalizers = []string{awsv1.TerminationFinalizer}
			c.change(nc)
			nc.DeletionTimestamp = &metav1.Time{Time: w.now}
			w.profiles[legacy(nc, "blue")] = ec2.InstanceProfile{Name: legacy(nc, "blue"), Tags: map[string]string{awsv1.TagNodeClass: "default"}}
			change, _, err := w.Reconcile(context.Background(), nc, nil)
			if err != nil || len(change.Object.Finalizers) != 0 || len(w.profiles) != c.left {
				t.Errorf("%v %v %v", err, change.Object.Finalizers, w.profiles)
			}
		})
	}
	w, nc := newWorld(t), class()
	nc.Finalizers, nc.DeletionTimestamp = []string{awsv1.TerminationFinalizer}, &metav1.Time{Time: w.now}
	nc.Spec.Role, nc.Spec.InstanceProfile = "", ptr("mine")
	w.fail["profile"] = &ec2.CallError{Action: "GetInstanceProfile", Err: &smithy.GenericAPIError{Code: "AccessDenied"}}
	w.fail["profiles"] = &ec2.CallError{Action: "ListInstanceProfiles", Err: &smithy.GenericAPIError{Code: "AccessDenied"}}
	if change, _, err := w.Reconcile(context.Background(), nc, nil); err != nil || len(change.Object.Finalizers) != 0 {
		t.Errorf("without rights for roles: %v %v", err, change.Object.Finalizers)
	}
	w, nc = newWorld(t), class()
	w.cfg.Cluster = "blue/green" // IAM knows no such name, and refuses to look for it
	nc.Finalizers, nc.DeletionTimestamp = []string{awsv1.TerminationFinalizer}, &metav1.Time{Time: w.now}
	nc.Spec.Role, nc.Spec.InstanceProfile = "", ptr("mine")
	w.fail["profile"] = errors.New("ValidationError")
	if change, _, err := w.Reconcile(context.Background(), nc, nil); err != nil || len(change.Object.Finalizers) != 0 {
		t.Errorf("%v %v", err, change.Object.Finalizers)
	}
}

// Who may not ask IAM any more can still launch with the profile that was found, unless the role is another.
func TestAProfileThatCannotBeAskedForStaysReady(t *testing.T) {
	w := newWorld(t)
	good := w.reconcile(t, class()).Object
	w.now = w.now.Add(5 * time.Minute)
	w.fail["profile"] = &ec2.CallError{Action: "GetInstanceProfile", Err: &smithy.GenericAPIError{Code: "AccessDenied"}}
	change, _, err := w.Reconcile(context.Background(), good, nil)
	if Ready(change.Object) != nil || change.Object.Status.InstanceProfile != good.Status.InstanceProfile {
		t.Errorf("not ready: %v, profile %q, error %v", Ready(change.Object), change.Object.Status.InstanceProfile, err)
	}
	other := good.DeepCopy()
	other.Generation, other.Spec.Role = other.Generation+1, "another"
	change, _, _ = w.Reconcile(context.Background(), other, nil)
	if Ready(change.Object) == nil {
		t.Error("a class with a new role is ready by the old profile")
	}
}

func TestCollectProfiles(t *testing.T) {
	w := newWorld(t)
	nc := w.reconcile(t, class()).Object
	for _, n := range []string{"named-by-claim", "orphan"} {
		w.profiles[n] = ec2.InstanceProfile{Name: n, Path: "/karpenter/eu-west-1/blue/gone/"}
	}
	w.profiles["foreign"] = ec2.InstanceProfile{Name: "foreign", Path: "/karpenter/eu-west-1/green/x/"}
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{awsv1.InstanceProfileAnnotationKey: "named-by-claim"}}}
	if err := w.CollectProfiles(context.Background(), []*awsv1.EC2NodeClass{nc}, []*karpv1.NodeClaim{claim}); err != nil {
		t.Fatal(err)
	}
	if _, orphan := w.profiles["orphan"]; orphan || len(w.profiles) != 3 {
		t.Errorf("left: %v", w.profiles)
	}
}

// A class of which nothing can be resolved says why, for as long as it is so; what was resolved before stays.
func TestConditionsSayWhatAWSRefuses(t *testing.T) {
	refusal := &ec2.CallError{Action: "ec2:Describe", Err: &smithy.GenericAPIError{Code: "UnauthorizedOperation", Message: "You are not authorized."}}
	const text = "call ec2:Describe: UnauthorizedOperation: You are not authorized."
	w := newWorld(t)
	for _, call := range []string{"ssm", "subnets", "groups", "reservations"} {
		w.fail[call] = refusal
	}
	nc := class()
	nc.Spec.CapacityReservationSelectorTerms = []awsv1.CapacityReservationSelectorTerm{{ID: "cr-1"}}
	c, _, err := w.Reconcile(t.Context(), nc, nil)
	if err == nil {
		t.Error("no error")
	}
	says := func(want ...string) {
		t.Helper()
		got := conditionTexts(c.Object)
		for _, s := range want {
			if !slices.Contains(got, s) {
				t.Errorf("%s is not among %s", s, strings.Join(got, "\n"))
			}
		}
	}
	says("AMIsReady=Unknown/AMIResolutionFailed/resolve AMIs: "+text, "SubnetsReady=Unknown/SubnetResolutionFailed/resolve subnets: "+text,
		"SecurityGroupsReady=Unknown/SecurityGroupResolutionFailed/resolve security groups: "+text,
		"CapacityReservationsReady=Unknown/CapacityReservationResolutionFailed/resolve capacity reservations: "+text)

	w.versionError = &ec2.Failure{Class: ec2.Transient, Reason: "KubernetesVersionUnknown", Message: "the cluster's Kubernetes version is not known: nobody answers"}
	c, _, _ = w.Reconcile(t.Context(), c.Object, nil)
	says("AMIsReady=Unknown/KubernetesVersionUnknown/the cluster's Kubernetes version is not known: nobody answers")

	w.fail["subnets"], w.fail["groups"] = nil, errors.New("connection reset")
	c, _, _ = w.Reconcile(t.Context(), c.Object, nil)
	w.now, w.fail["subnets"] = w.now.Add(2*time.Minute), refusal
	c, _, _ = w.Reconcile(t.Context(), c.Object, nil)
	says("SubnetsReady=True/SubnetsReady/", "SecurityGroupsReady=Unknown/SecurityGroupResolutionFailed/resolve security groups: "+text)
}

func TestAProfileThatMayNotBeDeletedHoldsUpNoOther(t *testing.T) {
	w := newWorld(t)
	w.refused["a"] = &ec2.CallError{Action: "iam:RemoveRoleFromInstanceProfile", Mutating: true, Err: &smithy.GenericAPIError{Code: "AccessDenied", Message: "explicit deny"}}
	for _, n := range []string{"a", "b", "c"} {
		w.profiles[n] = ec2.InstanceProfile{Name: n, Path: "/karpenter/eu-west-1/blue/gone/"}
	}
	if err := w.CollectProfiles(t.Context(), nil, nil); err == nil || !strings.Contains(err.Error(), "explicit deny") {
		t.Errorf("error %v, want the refusal", err)
	}
	if _, kept := w.profiles["a"]; !kept || len(w.profiles) != 1 {
		t.Errorf("left: %v, want a alone", w.profiles)
	}
}

// noise is a line that compression does not make shorter by much.
func noise(n int) string {
	rng, b := rand.New(rand.NewPCG(1, 2)), make([]byte, n)
	for i := range b {
		b[i] = byte('!' + rng.IntN(90))
	}
	return string(b)
}
