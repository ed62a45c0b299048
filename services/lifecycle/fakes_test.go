package lifecycle

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apitypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	bufferv1beta1 "millwright/api/autoscaling/v1beta1"
	karpv1 "millwright/api/karpenter/v1"
	karpv1alpha1 "millwright/api/karpenter/v1alpha1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/ledger"
	"millwright/services/internal/ec2"
	"millwright/services/internal/kube"
	"millwright/services/lifecycle/launch"
)

func uidOf(uid string) apitypes.UID { return apitypes.UID(uid) }

// fakeKube is API server and informer cache in one. Stored objects are never changed, only replaced.
type fakeKube struct {
	r       *rig
	version int
	claims  map[string]*karpv1.NodeClaim
	nodes   map[string]*corev1.Node
	pools   map[string]*karpv1.NodePool
	classes map[string]*awsv1.EC2NodeClass
	// stale are Nodes as the cache still has them, by name.
	stale map[string]*corev1.Node
	// hidden objects exist and are not in the cache yet.
	hidden map[string]bool
	// index is of nodes by provider id, as of a version.
	index   map[string][]*corev1.Node
	indexed int
	// behind is how far claims and nodes of the cache lag behind history; refused counts conflicts.
	behind  time.Duration
	history []past
	refused int
	// invalid is why no NodeClaim is taken; "": all are.
	invalid string
	// denied is how a webhook refuses each of them; nil: none does.
	denied *metav1.Status
	// admits is what a mutating webhook makes of each NodeClaim and Node that is written; nil: there is none.
	admits func(metav1.Object)
	// contested is how many writes a webhook refuses as conflicts although nobody else has written.
	contested int
	// slow is how far the API server's clock is behind that of the process.
	slow time.Duration
	// tracked: Since names each change.
	tracked bool
	changes kube.Changes
	// meanwhile is called before a status of a NodeClaim is written; nil is fine.
	meanwhile func(after *karpv1.NodeClaim)
}

func newFakeKube(r *rig) *fakeKube {
	return &fakeKube{
		r: r, claims: map[string]*karpv1.NodeClaim{}, nodes: map[string]*corev1.Node{}, pools: map[string]*karpv1.NodePool{},
		classes: map[string]*awsv1.EC2NodeClass{}, hidden: map[string]bool{}, stale: map[string]*corev1.Node{},
	}
}

// put stores an object with a new resourceVersion.
func (k *fakeKube) put(table any, o metav1.Object) {
	k.version++
	o.SetResourceVersion(strconv.Itoa(k.version))
	if o.GetUID() == "" {
		o.SetUID(uidOf(fmt.Sprintf("uid-%d", k.version)))
	}
	reflect.ValueOf(table).Elem().SetMapIndex(reflect.ValueOf(o.GetName()), reflect.ValueOf(o))
	for k.changes.Version() < uint64(k.version) {
		k.changes.Add(kube.ChangeOf(o))
	}
}

func (k *fakeKube) describe() (out []string) {
	for _, name := range slices.Sorted(maps.Keys(k.claims)) {
		c := k.claims[name]
		out = append(out, fmt.Sprintf("%s deleting=%v finalizers=%v provider=%s %v", name, !c.DeletionTimestamp.IsZero(), c.Finalizers, c.Status.ProviderID, c.Annotations))
	}
	for _, name := range slices.Sorted(maps.Keys(k.nodes)) {
		out = append(out, fmt.Sprintf("%s deleting=%v finalizers=%v", name, !k.nodes[name].DeletionTimestamp.IsZero(), k.nodes[name].Finalizers))
	}
	return out
}

func values[T any](m map[string]*T) []*T {
	var out []*T
	for _, name := range slices.Sorted(maps.Keys(m)) {
		out = append(out, m[name])
	}
	return out
}

func (k *fakeKube) Synced() bool    { return true }
func (k *fakeKube) Version() uint64 { return uint64(k.version) }
func (k *fakeKube) NodeClaims() []*karpv1.NodeClaim {
	claims, _ := k.shown()
	return slices.DeleteFunc(values(claims), func(c *karpv1.NodeClaim) bool { return k.hidden[c.Name] })
}
func (k *fakeKube) NodeClaim(name string) *karpv1.NodeClaim {
	if k.hidden[name] {
		return nil
	}
	claims, _ := k.shown()
	return claims[name]
}
func (k *fakeKube) Nodes() []*corev1.Node {
	_, nodes := k.shown()
	return values(nodes)
}

// Since cannot say what changed unless it is tracked, so that everything is looked at.
func (k *fakeKube) Since(version uint64) ([]kube.Change, uint64, bool) {
	if k.tracked {
		return k.changes.Since(version)
	}
	return nil, uint64(k.version), version == uint64(k.version)
}
func (k *fakeKube) DeletingNodes() []*corev1.Node {
	return slices.DeleteFunc(k.Nodes(), func(n *corev1.Node) bool { return n.DeletionTimestamp.IsZero() })
}
func (k *fakeKube) NodeClaimsByProviderID(id string) []*karpv1.NodeClaim {
	return slices.DeleteFunc(k.NodeClaims(), func(o *karpv1.NodeClaim) bool { return o.Status.ProviderID != id })
}
func (k *fakeKube) NodePools() []*karpv1.NodePool          { return values(k.pools) }
func (k *fakeKube) NodePool(n string) *karpv1.NodePool     { return k.pools[n] }
func (k *fakeKube) NodeClasses() []*awsv1.EC2NodeClass     { return values(k.classes) }
func (k *fakeKube) NodeClass(n string) *awsv1.EC2NodeClass { return k.classes[n] }
func (k *fakeKube) NodesByProviderID(id string) []*corev1.Node {
	if id == "" {
		return nil
	}
	if k.indexed != k.version || k.behind > 0 {
		k.index, k.indexed = map[string][]*corev1.Node{}, k.version
		for _, n := range k.Nodes() {
			if old := k.stale[n.Name]; old != nil {
				n = old
			}
			k.index[n.Spec.ProviderID] = append(k.index[n.Spec.ProviderID], n)
		}
	}
	return k.index[id]
}

func notFound(name string) error { return apierrors.NewNotFound(schema.GroupResource{}, name) }

// checked applies the preconditions of a write.
func (k *fakeKube) checked(name string, have metav1.Object, uid apitypes.UID, version string) error {
	switch {
	case reflect.ValueOf(have).IsNil():
		return notFound(name)
	case uid != "" && have.GetUID() != uid, version != "" && have.GetResourceVersion() != version:
		k.refused++
		return apierrors.NewConflict(schema.GroupResource{}, name, fmt.Errorf("precondition"))
	case k.contested > 0:
		k.contested--
		return apierrors.NewConflict(schema.GroupResource{}, name, fmt.Errorf("admission webhook"))
	}
	return nil
}

// admitted has the webhook change an object, and reports whether it then differs from the one there is: the
// API server writes nothing otherwise, and the resourceVersion stays.
func (k *fakeKube) admitted(o, have metav1.Object) bool {
	if k.admits == nil {
		return true
	}
	k.admits(o)
	return !reflect.DeepEqual(o, have)
}

func (k *fakeKube) CreateNodeClaim(_ context.Context, c *karpv1.NodeClaim) (out *karpv1.NodeClaim, err error) {
	err = k.r.act("create nodeclaim", errLost, func() error {
		if k.denied != nil {
			return &apierrors.StatusError{ErrStatus: *k.denied}
		}
		if k.invalid != "" {
			return apierrors.NewInvalid(karpv1.SchemeGroupVersion.WithKind("NodeClaim").GroupKind(), c.Name, field.ErrorList{field.Invalid(field.NewPath("metadata"), "", k.invalid)})
		}
		if k.claims[c.Name] != nil {
			return apierrors.NewAlreadyExists(schema.GroupResource{}, c.Name)
		}
		o := c.DeepCopy()
		k.admitted(o, nil)
		o.UID, o.Generation, o.CreationTimestamp = "", 1, metav1.NewTime(k.r.now.Add(-k.slow).Truncate(time.Second))
		k.put(&k.claims, o)
		out = o
		return nil
	})
	return out, err
}

func (k *fakeKube) GetNodeClaim(_ context.Context, name string) (*karpv1.NodeClaim, error) {
	if c := k.claims[name]; c != nil {
		return c, nil
	}
	return nil, notFound(name)
}

func (k *fakeKube) ListNodeClaims(context.Context) ([]*karpv1.NodeClaim, error) {
	return values(k.claims), nil
}
func (k *fakeKube) ListNodePools(context.Context) ([]*karpv1.NodePool, error) {
	return values(k.pools), nil
}

func (k *fakeKube) DeleteNodeClaim(_ context.Context, name string, uid apitypes.UID) error {
	return k.r.act("delete nodeclaim", errLost, func() error {
		if err := k.checked(name, k.claims[name], uid, ""); err != nil {
			return err
		}
		k.deleteClaim(name)
		return nil
	})
}

func (k *fakeKube) deleteClaim(name string) {
	o := k.claims[name].DeepCopy()
	if o.DeletionTimestamp.IsZero() {
		now := metav1.NewTime(k.r.now)
		o.DeletionTimestamp = &now
	}
	k.put(&k.claims, o)
	k.sweepClaim(o)
}

func (k *fakeKube) sweepClaim(o *karpv1.NodeClaim) {
	if len(o.Finalizers) == 0 && !o.DeletionTimestamp.IsZero() {
		delete(k.claims, o.Name)
	}
}

func (k *fakeKube) UpdateNodeClaim(_ context.Context, before, after *karpv1.NodeClaim) (out *karpv1.NodeClaim, err error) {
	if reflect.DeepEqual(before.ObjectMeta, after.ObjectMeta) {
		return after, nil
	}
	err = k.r.act("update nodeclaim", errLost, func() error {
		if err := k.checked(before.Name, k.claims[before.Name], before.UID, before.ResourceVersion); err != nil {
			return err
		}
		o := k.claims[before.Name].DeepCopy()
		o.Labels, o.Annotations, o.Finalizers = maps.Clone(after.Labels), maps.Clone(after.Annotations), after.Finalizers
		if k.admitted(o, k.claims[o.Name]) {
			k.put(&k.claims, o)
		}
		k.sweepClaim(o)
		out = o
		return nil
	})
	return out, err
}

func (k *fakeKube) UpdateNodeClaimStatus(_ context.Context, before, after *karpv1.NodeClaim) (out *karpv1.NodeClaim, err error) {
	if reflect.DeepEqual(before.Status, after.Status) {
		return after, nil
	}
	if k.meanwhile != nil {
		k.meanwhile(after)
	}
	err = k.r.act("update nodeclaim status", errLost, func() error {
		if err := k.checked(before.Name, k.claims[before.Name], before.UID, before.ResourceVersion); err != nil {
			return err
		}
		o := k.claims[before.Name].DeepCopy()
		o.Status = after.Status
		k.put(&k.claims, o)
		out = o
		return nil
	})
	return out, err
}

func (k *fakeKube) Node(_ context.Context, name string) (*corev1.Node, error) {
	if n := k.nodes[name]; n != nil {
		return n, nil
	}
	return nil, notFound(name)
}

func (k *fakeKube) UpdateNode(_ context.Context, before, after *corev1.Node) (out *corev1.Node, err error) {
	err = k.r.act("update node", errLost, func() error {
		if err := k.checked(before.Name, k.nodes[before.Name], before.UID, before.ResourceVersion); err != nil {
			return err
		}
		o := after.DeepCopy()
		if k.admitted(o, k.nodes[o.Name]) {
			k.put(&k.nodes, o)
		}
		k.sweepNode(o)
		out = o
		return nil
	})
	return out, err
}

func (k *fakeKube) sweepNode(o *corev1.Node) {
	if len(o.Finalizers) > 0 || o.DeletionTimestamp.IsZero() {
		return
	}
	delete(k.nodes, o.Name)
	k.version++
	if k.r.led.Drain(o.Name) != nil {
		k.r.other(ledger.ServiceTerminator, ledger.KindDrainEnded, &ledger.DrainEnded{Node: o.Name})
	}
}

func (k *fakeKube) DeleteNode(_ context.Context, name string, uid apitypes.UID) error {
	return k.r.act("delete node", errLost, func() error {
		if err := k.checked(name, k.nodes[name], uid, ""); err != nil {
			return err
		}
		k.deleteNode(name)
		return nil
	})
}

func (k *fakeKube) deleteNode(name string) {
	o := k.nodes[name].DeepCopy()
	now := metav1.NewTime(k.r.now)
	o.DeletionTimestamp = &now
	k.put(&k.nodes, o)
	k.sweepNode(o)
}

func (k *fakeKube) UpdateNodePool(_ context.Context, before, after *karpv1.NodePool) (*karpv1.NodePool, error) {
	if err := k.checked(before.Name, k.pools[before.Name], before.UID, before.ResourceVersion); err != nil {
		return nil, err
	}
	o := k.pools[before.Name].DeepCopy()
	o.Annotations = after.Annotations
	k.put(&k.pools, o)
	return o, nil
}

func (k *fakeKube) UpdateNodePoolStatus(_ context.Context, before, after *karpv1.NodePool) (*karpv1.NodePool, error) {
	if err := k.checked(before.Name, k.pools[before.Name], before.UID, before.ResourceVersion); err != nil {
		return nil, err
	}
	o := k.pools[before.Name].DeepCopy()
	o.Status = after.Status
	k.put(&k.pools, o)
	return o, nil
}

func (k *fakeKube) UpdateNodeClass(_ context.Context, before, after *awsv1.EC2NodeClass) (*awsv1.EC2NodeClass, error) {
	if err := k.checked(before.Name, k.classes[before.Name], before.UID, before.ResourceVersion); err != nil {
		return nil, err
	}
	o := k.classes[before.Name].DeepCopy()
	o.Annotations, o.Finalizers = after.Annotations, after.Finalizers
	k.put(&k.classes, o)
	return o, nil
}

func (k *fakeKube) UpdateBufferStatus(context.Context, *bufferv1beta1.CapacityBuffer, *bufferv1beta1.CapacityBuffer) (*bufferv1beta1.CapacityBuffer, error) {
	return nil, fmt.Errorf("there are no CapacityBuffers here")
}

func (k *fakeKube) InstallBufferCRD(context.Context) error { return nil }

func (k *fakeKube) UpdateNodeOverlayStatus(context.Context, *karpv1alpha1.NodeOverlay, *karpv1alpha1.NodeOverlay) (*karpv1alpha1.NodeOverlay, error) {
	return nil, fmt.Errorf("there are no NodeOverlays here")
}

func (k *fakeKube) UpdateNodeClassStatus(_ context.Context, before, after *awsv1.EC2NodeClass) (*awsv1.EC2NodeClass, error) {
	if err := k.checked(before.Name, k.classes[before.Name], before.UID, before.ResourceVersion); err != nil {
		return nil, err
	}
	o := k.classes[before.Name].DeepCopy()
	o.Status = after.Status
	k.put(&k.classes, o)
	return o, nil
}

// fakeEC2 keeps client tokens as EC2 does.
type fakeEC2 struct {
	r *rig
	// hang names the call that is never answered.
	hang      string
	instances map[string]*ec2.Instance
	booted    map[string]bool
	fleets    map[string]fleet
	// exhausted types have no capacity. stock is how many more instances there are of the type that is
	// launched next, if it is positive.
	exhausted map[string]bool
	stock     int
	// reserved are the capacity reservations that types are launched into.
	reserved map[string]string
	// described counts questions about instances by id.
	described int
	// lag hides young instances from describe calls.
	lag time.Duration
	// refuse answers the next CreateFleet calls with these errors; nil entries let the call pass.
	refuse []error
	// failures are errors of the fleets that are asked for next; each of these lacks one instance.
	failures [][]ec2.FleetError
	// dead: CreateFleet calls that were sent, by token.
	sent map[string]int
	// forgetful: tokens are not remembered (older than EC2 keeps them).
	mismatch bool
	// terse: CreateFleet names nothing but the instance.
	terse bool
}

type fleet struct {
	request string
	result  ec2.FleetResult
}

func newFakeEC2(r *rig) *fakeEC2 {
	return &fakeEC2{
		r: r, instances: map[string]*ec2.Instance{}, booted: map[string]bool{}, fleets: map[string]fleet{}, exhausted: map[string]bool{}, sent: map[string]int{},
	}
}

func (f *fakeEC2) describe() (out []string) {
	for _, i := range f.sorted() {
		out = append(out, i.ID+" "+i.State+" "+i.Tags[awsv1.TagLaunch])
	}
	return out
}

func (f *fakeEC2) sorted() []*ec2.Instance { return values(f.instances) }

func (f *fakeEC2) running() (n int) {
	for _, i := range f.instances {
		if !i.Ending() {
			n++
		}
	}
	return n
}

// tick moves instances on: pending to running, shutting-down to terminated.
func (f *fakeEC2) tick() {
	for _, i := range f.sorted() {
		switch i.State {
		case "pending":
			i.State = "running"
		case "shutting-down":
			i.State = "terminated"
		}
	}
}

func apiError(code string) error {
	return &ec2.CallError{Action: "ec2:CreateFleet", Mutating: true, Err: &smithy.GenericAPIError{Code: code, Message: code}}
}

// lostFleet is a CreateFleet call without an answer.
var lostFleet = &ec2.CallError{Action: "ec2:CreateFleet", Mutating: true, Err: context.DeadlineExceeded}

// answers panics if the call hangs.
func (f *fakeEC2) answers(call string) {
	if f.hang == call {
		panic(hangs{})
	}
}

func (f *fakeEC2) CreateFleet(_ context.Context, in *awsec2.CreateFleetInput) (out ec2.FleetResult, err error) {
	f.answers("CreateFleet")
	err = f.r.act("create fleet", lostFleet, func() error {
		if len(f.refuse) > 0 {
			e := f.refuse[0]
			f.refuse = f.refuse[1:]
			if e != nil {
				return e
			}
		}
		bytes, _ := json.Marshal(in)
		token := aws.ToString(in.ClientToken)
		f.sent[token]++
		have, ok := f.fleets[token]
		if ok && have.request != string(bytes) || f.mismatch {
			return apiError("IdempotentParameterMismatch")
		}
		if !ok {
			have = fleet{request: string(bytes), result: f.start(in)}
			f.fleets[token] = have
		}
		out = have.result
		return nil
	})
	return out, err
}

func (f *fakeEC2) start(in *awsec2.CreateFleetInput) ec2.FleetResult {
	var result ec2.FleetResult
	wanted := int(aws.ToInt32(in.TargetCapacitySpecification.TotalTargetCapacity))
	if len(f.failures) > 0 {
		result.Errors, f.failures = f.failures[0], f.failures[1:]
		wanted--
	}
	for _, o := range in.LaunchTemplateConfigs[0].Overrides {
		for ; len(result.Instances) < wanted && !f.exhausted[string(o.InstanceType)]; f.stock-- {
			if f.stock == 1 {
				f.exhausted[string(o.InstanceType)] = true
			}
			result.Instances = append(result.Instances, f.startOne(in, o))
		}
		if len(result.Instances) < wanted {
			result.Errors = append(result.Errors, ec2.FleetError{
				Code: "InsufficientInstanceCapacity", Message: "none", InstanceType: string(o.InstanceType), Zone: "eu-1a", CapacityType: "on-demand",
			})
		}
	}
	return result
}

func (f *fakeEC2) startOne(in *awsec2.CreateFleetInput, o ec2types.FleetLaunchTemplateOverridesRequest) ec2.Instance {
	i := &ec2.Instance{
		ID: fmt.Sprintf("i-%04d", len(f.instances)+1), State: "pending", InstanceType: string(o.InstanceType), Zone: "eu-1a",
		CapacityType: "on-demand", ImageID: "ami-1", LaunchTime: f.r.now, Tags: map[string]string{},
	}
	for _, t := range in.TagSpecifications[0].Tags {
		i.Tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
	}
	if id := f.reserved[i.InstanceType]; id != "" {
		i.CapacityType, i.ReservationID = "reserved", id
	}
	f.instances[i.ID] = i
	answer := *i
	answer.Tags = nil
	if f.terse {
		answer = ec2.Instance{ID: i.ID, State: i.State, CapacityType: i.CapacityType}
	}
	return answer
}

func (f *fakeEC2) visible(i *ec2.Instance) bool { return f.r.now.Sub(i.LaunchTime) >= f.lag }

func (f *fakeEC2) DescribeInstances(_ context.Context, ids []string) ([]ec2.Instance, error) {
	f.described++
	f.answers("DescribeInstances")
	for _, id := range ids {
		if !strings.HasPrefix(id, "i-") {
			return nil, &smithy.GenericAPIError{Code: "InvalidInstanceID.Malformed", Message: "Invalid id: " + id}
		}
	}
	var out []ec2.Instance
	for _, i := range f.sorted() {
		if slices.Contains(ids, i.ID) && f.visible(i) {
			out = append(out, *i)
		}
	}
	return out, nil
}

func (f *fakeEC2) DescribeInstancesByTags(_ context.Context, tags map[string]string, _ ...string) ([]ec2.Instance, error) {
	f.answers("DescribeInstancesByTags")
	var out []ec2.Instance
	for _, i := range f.sorted() {
		if f.visible(i) && !i.Gone() && matches(i.Tags, tags) {
			out = append(out, *i)
		}
	}
	return out, nil
}

func matches(have, want map[string]string) bool {
	for k, v := range want {
		if h, ok := have[k]; !ok || v != "*" && h != v {
			return false
		}
	}
	return true
}

func (f *fakeEC2) TerminateInstances(_ context.Context, ids []string) error {
	f.answers("TerminateInstances")
	return f.r.act("terminate", errLost, func() error {
		for _, id := range ids {
			if i := f.instances[id]; i != nil && f.visible(i) && !i.Ending() {
				i.State = "shutting-down"
			}
		}
		return nil
	})
}

func (f *fakeEC2) CreateTags(_ context.Context, id string, tags map[string]string) error {
	f.answers("CreateTags")
	return f.r.act("create tags", errLost, func() error {
		for k, v := range tags {
			f.instances[id].Tags[k] = v
		}
		return nil
	})
}

// fakeLauncher asks for the free instances of a capacity reservation, else for every type that is not marked,
// cheapest name first.
type fakeLauncher struct{ r *rig }

func (l fakeLauncher) Build(_ context.Context, in launch.Input) (launch.Built, error) {
	l.r.ec2.answers("Build")
	config := ec2types.FleetLaunchTemplateConfigRequest{LaunchTemplateSpecification: &ec2types.FleetLaunchTemplateSpecificationRequest{
		LaunchTemplateId: aws.String("lt-1"), Version: aws.String("1"),
	}}
	var selection launch.Selection
	template := ledger.LaunchTemplateRef{ID: "lt-1", Version: "1"}
	for _, t := range in.Types {
		if len(t.Offerings) > 0 && t.Offerings[0].ReservationID != "" {
			if template.ReservationID = t.Offerings[0].ReservationID; in.FreeReserved[template.ReservationID] > 0 {
				selection = launch.Selection{CapacityType: t.Offerings[0].CapacityType, Candidates: []launch.Candidate{{Type: t, Offerings: t.Offerings}}}
				config.Overrides = []ec2types.FleetLaunchTemplateOverridesRequest{{InstanceType: ec2types.InstanceType(t.Name)}}
				break
			}
			template.ReservationID = ""
			continue
		}
		if reservedOnly(in.Claim) {
			continue
		}
		if !in.Unavailable[ledger.OfferingKey{InstanceType: t.Name, Zone: "eu-1a", CapacityType: "on-demand"}] {
			selection.Candidates = append(selection.Candidates, launch.Candidate{Type: t, Offerings: t.Offerings})
			config.Overrides = append(config.Overrides, ec2types.FleetLaunchTemplateOverridesRequest{InstanceType: ec2types.InstanceType(t.Name)})
		}
	}
	if len(config.Overrides) == 0 {
		return launch.Built{}, &ec2.Failure{Class: ec2.NoCapacity, Reason: "InsufficientCapacity", Message: "all requested instance types were unavailable during launch"}
	}
	built := launch.Built{Key: in.Claim.Name, Selection: selection, Templates: []ledger.LaunchTemplateRef{template}}
	if l.r.together {
		built.Key = fmt.Sprint(config.Overrides)
	}
	l.r.configs[built.Key] = config
	return built, nil
}

// reservedOnly: the claim may have nothing but reserved capacity.
func reservedOnly(c *karpv1.NodeClaim) bool {
	return slices.ContainsFunc(c.Spec.Requirements, func(r karpv1.NodeSelectorRequirementWithMinValues) bool {
		return r.Key == karpv1.CapacityTypeLabelKey && slices.Equal(r.Values, []string{karpv1.CapacityTypeReserved})
	})
}

func (l fakeLauncher) Request(built launch.Built, o launch.Order) *awsec2.CreateFleetInput {
	if l.r.requested != nil {
		l.r.requested(built, o)
	}
	tags := map[string]string{awsv1.TagLaunch: o.LaunchTag, awsv1.TagNodePool: "default", awsv1.TagNodeClass: "default", awsv1.TagEKSClusterName: "test"}
	if len(o.Claims) == 1 {
		tags[awsv1.TagNodeClaim] = o.Claims[0]
	}
	return &awsec2.CreateFleetInput{
		ClientToken: aws.String(o.Token), Type: ec2types.FleetTypeInstant, LaunchTemplateConfigs: []ec2types.FleetLaunchTemplateConfigRequest{l.r.configs[built.Key]},
		TargetCapacitySpecification: &ec2types.TargetCapacitySpecificationRequest{TotalTargetCapacity: aws.Int32(int32(len(o.Claims)))},
		TagSpecifications:           []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeInstance, Tags: ec2.Tags(tags)}},
	}
}

func (l fakeLauncher) Room(_ launch.Built, claims int) int { return claims }

func (l fakeLauncher) Forget(refs []ledger.LaunchTemplateRef) {
	for _, ref := range refs {
		l.r.forgotten = append(l.r.forgotten, ref.ID)
	}
}

func (l fakeLauncher) Settle(string, ...string) {}
