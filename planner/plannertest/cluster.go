package plannertest

import (
	"encoding/json"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	bufferv1beta1 "millwright/api/autoscaling/v1beta1"
	karpv1 "millwright/api/karpenter/v1"
	karpv1alpha1 "millwright/api/karpenter/v1alpha1"
	awsv1 "millwright/api/karpenteraws/v1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/events"
	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/world"
)

// LogID of test Ledgers.
const LogID = "00112233445566778899aabbccddeeff"

// Cluster feeds a World and a Ledger as the watcher and the services would. Every step moves its clock by
// what Advance says only.
type Cluster struct {
	World  *world.World
	Ledger *ledger.Ledger
	Clock  time.Time
	// Messages are all observations so far; the sequence is the index plus one.
	Messages []events.Observation
	// Entries are all records so far; the sequence is the index plus one.
	Entries []ledger.Entry

	epoch, counter uint64
}

// New returns a cluster that has seen one resync with the given objects and one heartbeat, at Start, and a
// log with its genesis.
func New(objects ...any) *Cluster {
	c := &Cluster{World: world.New(), Ledger: ledger.New(LogID), Clock: Start}
	c.World.SetIncarnation("stream-1")
	c.Record(ledger.KindGenesis, &ledger.Genesis{LogID: LogID, Cluster: "test"})
	c.Resync(objects...)
	return c
}

// Resync starts an epoch in which exactly the given objects exist.
func (c *Cluster) Resync(objects ...any) {
	c.epoch, c.counter = c.epoch+1, 0
	c.send(events.Observation{Op: events.OpResyncBegin})
	c.See(objects...)
	c.send(events.Observation{Op: events.OpResyncEnd})
	c.Beat()
}

// See publishes the objects as they are now.
func (c *Cluster) See(objects ...any) {
	for _, o := range objects {
		c.send(Observe(o))
	}
}

// Gone publishes that the objects were deleted.
func (c *Cluster) Gone(objects ...any) {
	for _, o := range objects {
		obs := Observe(o)
		obs.Op, obs.Object = events.OpDelete, nil
		c.send(obs)
	}
}

// Forget loses all observations: a new stream begins, with what there is now. Nothing is known any more of
// what has changed or left before.
func (c *Cluster) Forget() {
	old := c.Messages
	last := map[string]int{}
	key := func(i int, o events.Observation) string {
		if o.Kind == events.KindPrices { // differences, all of which count
			return fmt.Sprint("prices ", i)
		}
		return fmt.Sprint(o.Kind, " ", o.UID, " ", o.Name)
	}
	for i, o := range old {
		last[key(i, o)] = i
	}
	c.World, c.Messages, c.epoch, c.counter = world.New(), nil, 1, 0
	c.World.SetIncarnation("stream-2")
	c.send(events.Observation{Op: events.OpResyncBegin})
	for i, o := range old {
		if last[key(i, o)] == i && o.Op == events.OpUpsert && o.Object != nil {
			o.ObservedAt = time.Time{}
			c.send(o)
		}
	}
	c.send(events.Observation{Op: events.OpResyncEnd})
	c.Beat()
}

// Beat publishes a heartbeat.
func (c *Cluster) Beat() {
	c.send(events.Observation{Op: events.OpHeartbeat, Object: &events.Heartbeat{}})
}

// Lose skips a counter, as if a message had been lost.
func (c *Cluster) Lose() { c.counter++ }

// Send publishes an observation with the next counter.
func (c *Cluster) Send(o events.Observation) { c.send(o) }

// Advance moves the clock and publishes a heartbeat.
func (c *Cluster) Advance(d time.Duration) {
	c.Clock = c.Clock.Add(d)
	c.Beat()
}

func (c *Cluster) send(o events.Observation) {
	c.counter++
	o.Epoch, o.Counter = c.epoch, c.counter
	if o.ObservedAt.IsZero() {
		o.ObservedAt = c.Clock
	}
	c.Messages = append(c.Messages, o)
	c.World.Apply(uint64(len(c.Messages)), o)
}

// Record appends an outcome and folds it. The payload passes through JSON as it would in the store.
func (c *Cluster) Record(kind ledger.Kind, payload any, advances ...string) uint64 {
	return c.append(ledger.Entry{Kind: kind, Payload: payload, Advances: advances})
}

// Decide appends a decision taken on the Snapshot and folds it.
func (c *Cluster) Decide(s *planner.Snapshot, d *planner.Decision) uint64 {
	x, err := json.Marshal(d.Explanation)
	must(err)
	b := s.Basis()
	return c.append(ledger.Entry{
		Kind: d.Kind, Payload: d.Payload, Advances: d.Advances, Subjects: d.Subjects, Causation: d.Causation, Explanation: x,
		PlannerVersion: planner.Version, Position: b.Position, LedgerSeq: b.LedgerSeq, Now: b.Now, OptionsSeq: b.OptionsSeq,
	})
}

func (c *Cluster) append(e ledger.Entry) uint64 {
	b, err := json.Marshal(e.Payload)
	must(err)
	e.Payload = ledger.NewPayload(e.Kind)
	must(json.Unmarshal(b, e.Payload))
	e.Seq, e.Time, e.Mode = c.Ledger.Seq()+1, c.Clock, ledger.ModeActive
	must(c.Ledger.Apply(e))
	c.Entries = append(c.Entries, e)
	return e.Seq
}

// Options appends an OptionsSet.
func (c *Cluster) Options(o planner.Options) {
	c.Record(ledger.KindOptionsSet, &ledger.OptionsSet{Options: planner.EncodeOptions(o)})
}

// Snapshot joins World and Ledger now.
func (c *Cluster) Snapshot() *planner.Snapshot {
	return planner.NewSnapshot(c.World, c.Ledger, c.Clock)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// Observe is the upsert of an object, named as the watcher names it.
func Observe(object any) events.Observation {
	kind, uid, name, version := identify(object)
	return events.Observation{Kind: kind, Op: events.OpUpsert, UID: uid, Name: name, ResourceVersion: version, Object: object}
}

func identify(object any) (events.Kind, types.UID, string, string) {
	switch o := object.(type) {
	case *corev1.Pod:
		return events.KindPod, o.UID, o.Namespace + "/" + o.Name, o.ResourceVersion
	case *corev1.Node:
		return events.KindNode, o.UID, o.Name, o.ResourceVersion
	case *karpv1.NodeClaim:
		return events.KindNodeClaim, o.UID, o.Name, o.ResourceVersion
	case *karpv1.NodePool:
		return events.KindNodePool, o.UID, o.Name, o.ResourceVersion
	case *awsv1.EC2NodeClass:
		return events.KindEC2NodeClass, o.UID, o.Name, o.ResourceVersion
	case *appsv1.DaemonSet:
		return events.KindDaemonSet, o.UID, o.Namespace + "/" + o.Name, o.ResourceVersion
	case *policyv1.PodDisruptionBudget:
		return events.KindPodDisruptionBudget, o.UID, o.Namespace + "/" + o.Name, o.ResourceVersion
	case *corev1.Namespace:
		return events.KindNamespace, o.UID, o.Name, o.ResourceVersion
	case *mwv1alpha1.DisruptionPolicy:
		return events.KindDisruptionPolicy, o.UID, o.Name, o.ResourceVersion
	case *karpv1alpha1.NodeOverlay:
		return events.KindNodeOverlay, o.UID, o.Name, o.ResourceVersion
	case *schedulingv1.PriorityClass:
		return events.KindPriorityClass, o.UID, o.Name, o.ResourceVersion
	case *events.CatalogRef:
		return events.KindCatalog, types.UID(o.NodeClass), o.NodeClass, ""
	case *events.Prices:
		return events.KindPrices, "", "", ""
	case *events.InstanceState:
		return events.KindInstanceState, types.UID(o.ID), o.ID, ""
	}
	return identifyBuffer(object)
}

func identifyBuffer(object any) (events.Kind, types.UID, string, string) {
	switch o := object.(type) {
	case *bufferv1beta1.CapacityBuffer:
		return events.KindCapacityBuffer, o.UID, o.Namespace + "/" + o.Name, o.ResourceVersion
	case *corev1.PodTemplate:
		return events.KindPodTemplate, o.UID, o.Namespace + "/" + o.Name, o.ResourceVersion
	case *appsv1.Deployment:
		return events.KindDeployment, o.UID, o.Namespace + "/" + o.Name, o.ResourceVersion
	case *appsv1.StatefulSet:
		return events.KindStatefulSet, o.UID, o.Namespace + "/" + o.Name, o.ResourceVersion
	case *appsv1.ReplicaSet:
		return events.KindReplicaSet, o.UID, o.Namespace + "/" + o.Name, o.ResourceVersion
	}
	return identifyVolume(object)
}

func identifyVolume(object any) (events.Kind, types.UID, string, string) {
	switch o := object.(type) {
	case *corev1.PersistentVolumeClaim:
		return events.KindPersistentVolumeClaim, o.UID, o.Namespace + "/" + o.Name, o.ResourceVersion
	case *corev1.PersistentVolume:
		return events.KindPersistentVolume, o.UID, o.Name, o.ResourceVersion
	case *storagev1.StorageClass:
		return events.KindStorageClass, o.UID, o.Name, o.ResourceVersion
	case *storagev1.CSINode:
		return events.KindCSINode, o.UID, o.Name, o.ResourceVersion
	case *storagev1.VolumeAttachment:
		return events.KindVolumeAttachment, o.UID, o.Name, o.ResourceVersion
	}
	panic(fmt.Sprintf("plannertest: no kind for %T", object))
}

// AddNode shows a registered, initialized node of a pool with its claim, planned in no record but adopted in
// the Ledger.
func (c *Cluster) AddNode(name, pool string, options ...func(*corev1.Node)) {
	claim := name + "-claim"
	c.Record(ledger.KindClaimAdopted, &ledger.ClaimAdopted{Claim: claim, UID: types.UID("claim-" + claim), NodePool: pool, ProviderID: ProviderID(name)})
	c.Record(ledger.KindClaimInitialized, &ledger.ClaimInitialized{Claim: claim, Node: name})
	c.See(Claim(claim, name, pool), Node(name, append([]func(*corev1.Node){InPool(pool)}, options...)...))
}
