package world

import (
	"iter"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	appsv1 "k8s.io/api/apps/v1"

	bufferv1beta1 "millwright/api/autoscaling/v1beta1"
	karpv1 "millwright/api/karpenter/v1"
	karpv1alpha1 "millwright/api/karpenter/v1alpha1"
	awsv1 "millwright/api/karpenteraws/v1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/events"
	"millwright/planner/memory"
	"millwright/planner/version"
)

// World is the fold of Observations: either the live one, which Apply changes, or a version of it, which
// nothing changes any more. Versions may be read beside each other and beside Apply; the live one not beside
// Apply.
type World struct {
	// owner of what Apply may change in place; nil in a version.
	owner *version.Owner
	// latest is the version taken last, nil if Apply was called since.
	latest *World

	stream position
	resync resync
	asOf   time.Time
	torn   bool
	// drifted names kinds that differed from what the watcher said it had published.
	drifted []string
	synced  bool
	// generation counts resync begins; a row whose generation is lower was not mentioned since.
	generation uint32
	// unknownIn is the generation in which objects of kinds that this version does not know were published
	// last; 0 if a whole resync has begun since. No checkpoint is written before, so that it is in none.
	unknownIn uint32

	// What was seen, by what it is about; each part has its own accessors, which are the World's too.
	pods
	nodes
	objects
	aws
	classes version.Map[uint64, classRow]
	// departed are the pods that were evicted and not created again; their classes need not be among classes.
	departed

	// revision counts changes of what is in the World, in this process; unbound counts those that are about
	// anything but pods with a node. No checkpoint has them.
	revision, unbound uint64
	// typeLists are the lists of instance types of the NodeClaims folded last; see sharing. The lists are
	// never changed.
	typeLists typeLists
	// overlaid caches Overlaid; nil when stale.
	overlaid *overlaidCache
	// memory that nodes were found to have, in a version that WithMemory made; it is no part of what was
	// observed.
	memory *memory.Table
	// records caches NamedRecords by log-id; nil when stale.
	records *atomic.Pointer[map[string]NamedRecords]
	// attached caches VolumeAttachmentsOf; nil when stale.
	attached *atomic.Pointer[map[string][]*storagev1.VolumeAttachment]
}

// position of the fold in the stream.
type position struct {
	incarnation             string
	sequence, digest        uint64
	epoch, counter, dropped uint64
}

// resync that is running.
type resync struct {
	running bool
	// intact: its begin was seen, and no counter is missing since.
	intact bool
	// asOf is the last heartbeat folded while running; it becomes the World's at the end.
	asOf time.Time
}

// Unreadable names an object that exists but could not be published or read.
type Unreadable struct {
	Kind events.Kind `json:"Kind"`
	Name string      `json:"Name"`
	UID  types.UID   `json:"UID"`
}

// New returns the empty World: nothing seen, not synced.
func New() *World {
	w := &World{}
	w.reset("")
	return w
}

func (w *World) reset(incarnation string) {
	*w = World{owner: new(version.Owner), stream: position{incarnation: incarnation}}
	w.overlaid, w.records = &overlaidCache{}, &atomic.Pointer[map[string]NamedRecords]{}
	w.forgetAttached()
	w.pods, w.departed = newPodTable(), newDeparted()
	w.classes = version.NewMap[uint64, classRow](func(digest uint64) uint64 { return digest })
	w.nodes = newNodeTable()
	w.aws = newAWSState()
	w.claims = newTable(jsonCodec[karpv1.NodeClaim]())
	w.pools = newTable(jsonCodec[karpv1.NodePool]())
	w.nodeClasses = newTable(jsonCodec[awsv1.EC2NodeClass]())
	w.daemonSets = newTable(protoCodec[appsv1.DaemonSet]())
	w.budgets = newTable(protoCodec[policyv1.PodDisruptionBudget]())
	w.volumeClaims = newTable(protoCodec[corev1.PersistentVolumeClaim]())
	w.volumes = newTable(protoCodec[corev1.PersistentVolume]())
	w.classesOfSC = newTable(protoCodec[storagev1.StorageClass]())
	w.csiNodes = newTable(protoCodec[storagev1.CSINode]())
	w.attachments = newTable(protoCodec[storagev1.VolumeAttachment]())
	w.namespaces = newTable(protoCodec[corev1.Namespace]())
	w.priorities = newTable(protoCodec[schedulingv1.PriorityClass]())
	w.overlays = newTable(jsonCodec[karpv1alpha1.NodeOverlay]())
	w.policies = newTable(jsonCodec[mwv1alpha1.DisruptionPolicy]())
	w.buffers = newTable(jsonCodec[bufferv1beta1.CapacityBuffer]())
	w.podTemplates = newTable(protoCodec[corev1.PodTemplate]())
	w.deployments = newTable(protoCodec[appsv1.Deployment]())
	w.statefulSets = newTable(protoCodec[appsv1.StatefulSet]())
	w.replicaSets = newTable(protoCodec[appsv1.ReplicaSet]())
	w.unreadable = newTable(unreadableCodec())
}

// tables by kind, in the order of kind numbers.
func (w *World) tables() iter.Seq2[events.Kind, folder] {
	return func(yield func(events.Kind, folder) bool) {
		for k := events.Kind(1); k < kindsEnd; k++ {
			if t := w.table(k); t != nil && !yield(k, t) {
				return
			}
		}
	}
}

// kindsEnd is above all kinds.
const kindsEnd = 64

// table of a kind; nil if it has none of its own here.
func (w *World) table(k events.Kind) folder {
	switch k {
	case events.KindNodeClaim:
		return &w.claims
	case events.KindNodePool:
		return &w.pools
	case events.KindEC2NodeClass:
		return &w.nodeClasses
	case events.KindDaemonSet:
		return &w.daemonSets
	case events.KindPodDisruptionBudget:
		return &w.budgets
	case events.KindPersistentVolumeClaim:
		return &w.volumeClaims
	case events.KindPersistentVolume:
		return &w.volumes
	case events.KindStorageClass:
		return &w.classesOfSC
	case events.KindCSINode:
		return &w.csiNodes
	case events.KindVolumeAttachment:
		return &w.attachments
	case events.KindNamespace:
		return &w.namespaces
	case events.KindPriorityClass:
		return &w.priorities
	case events.KindNodeOverlay:
		return &w.overlays
	case events.KindDisruptionPolicy:
		return &w.policies
	}
	return w.bufferTable(k)
}

// bufferTable is table of CapacityBuffers and what they refer to.
func (o *objects) bufferTable(k events.Kind) folder {
	switch k {
	case events.KindCapacityBuffer:
		return &o.buffers
	case events.KindPodTemplate:
		return &o.podTemplates
	case events.KindDeployment:
		return &o.deployments
	case events.KindStatefulSet:
		return &o.statefulSets
	case events.KindReplicaSet:
		return &o.replicaSets
	}
	return nil
}

// Version returns the World as it is now, never to change: a copy of the tables' roots, taken in about a
// microsecond. What is folded later copies what it changes. A version is its own version.
func (w *World) Version() *World {
	if w.owner == nil {
		return w
	}
	if w.latest == nil {
		v := *w
		v.owner = nil
		w.owner, w.latest = new(version.Owner), &v
	}
	return w.latest
}

// writable must be called before any change.
func (w *World) writable() {
	if w.owner == nil {
		panic("world: a version cannot be changed")
	}
	w.latest = nil
}

// SetIncarnation says which stream the messages to come are of. Another name than before starts from an empty
// World, so that the World is a function of one stream alone; it is synced again at its first resync end.
func (w *World) SetIncarnation(name string) {
	if name == w.stream.incarnation {
		return
	}
	w.writable()
	switch w.stream.incarnation {
	case "":
		w.stream.incarnation = name
	default:
		w.reset(name)
	}
}

// Apply folds the message at a sequence of the stream. Any message is accepted; what is late or repeated
// changes nothing but the sequence, and of an object of an unknown kind it is taken in that it was published.
func (w *World) Apply(sequence uint64, o events.Observation) {
	w.writable()
	w.stream.sequence = max(w.stream.sequence, sequence)
	if !w.acceptMessage(o) {
		w.stream.dropped++
		return
	}
	w.stream.digest = chain(w.stream.digest, o)
	switch o.Op {
	case events.OpResyncBegin:
		w.resync = resync{running: true, intact: true}
		w.generation++
	case events.OpResyncEnd:
		w.endResync(o)
	case events.OpHeartbeat:
		w.heartbeat(o)
	case events.OpUpsert, events.OpDelete, events.OpUnreadable:
		w.fold(o)
	}
}

// acceptMessage decides by epoch and counter whether a message counts, and notices what is missing before it.
func (w *World) acceptMessage(o events.Observation) bool {
	switch {
	case o.Epoch == 0 || o.Epoch < w.stream.epoch:
		return false
	case o.Epoch > w.stream.epoch:
		w.stream.epoch = o.Epoch
		if o.Op != events.OpResyncBegin {
			w.gap()
		}
	case o.Counter <= w.stream.counter:
		return false
	case o.Counter != w.stream.counter+1 && o.Op != events.OpResyncBegin:
		w.gap()
	case o.Counter != w.stream.counter+1:
		w.torn = true
	}
	w.stream.counter = o.Counter
	return true
}

// gap marks the World torn. A running resync that missed a message can't say what is gone.
func (w *World) gap() {
	w.torn = true
	w.resync.intact = false
}

func (w *World) heartbeat(o events.Observation) {
	if w.resync.running {
		w.resync.asOf = o.ObservedAt
		return
	}
	w.aws.dropStrangers(w.owner, w.asOf, o.ObservedAt)
	if w.departed.prune(w.owner, o.ObservedAt) {
		w.countChange(true)
	}
	w.asOf = o.ObservedAt
	if h, ok := o.Object.(*events.Heartbeat); ok {
		w.audit(h.Sums)
	}
}

// endResync drops what an intact resync did not mention. After a resync that missed messages the World
// stays torn, and unsynced if it was.
func (w *World) endResync(o events.Observation) {
	if w.resync.running && w.resync.intact {
		w.dropUnmentioned(o.ObservedAt)
		w.torn, w.synced, w.drifted = false, true, nil
		if w.unknownIn < w.generation {
			w.unknownIn = 0
		}
	}
	if !w.resync.asOf.IsZero() {
		w.asOf = w.resync.asOf
	}
	w.resync = resync{}
}

func (w *World) dropUnmentioned(at time.Time) {
	w.countChange(false)
	w.dropPods(at)
	w.dropNodes()
	for _, t := range w.tables() {
		t.dropBelow(w.owner, w.generation)
	}
	w.unreadable.dropBelow(w.owner, w.generation)
	w.aws.dropBelow(w.owner, w.generation)
	w.overlaid = &overlaidCache{}
	w.forgetRecords()
	w.forgetAttached()
}

// countChange counts a change; bound: it is only about a pod with a node.
func (w *World) countChange(bound bool) {
	w.revision++
	if !bound {
		w.unbound++
	}
}

// fold applies a change of one object.
func (w *World) fold(o events.Observation) {
	if !o.Kind.IsKnown() {
		w.unknownIn = w.generation
		return
	}
	if o.Kind != events.KindPod || o.Op == events.OpUnreadable || o.Op == events.OpUpsert && o.Object == nil {
		w.countChange(false)
	}
	switch o.Kind {
	case events.KindNodeOverlay, events.KindNodePool, events.KindCatalog, events.KindPrices:
		w.overlaid = &overlaidCache{}
	case events.KindVolumeAttachment:
		w.forgetAttached()
	}
	w.foldUnreadable(o)
	if o.Op == events.OpUpsert && o.Object == nil {
		return
	}
	switch o.Kind {
	case events.KindPod:
		w.foldPod(o)
	case events.KindNode:
		w.foldNode(o)
	case events.KindCatalog, events.KindPrices, events.KindInstanceState, events.KindInterruption:
		w.aws.fold(w.owner, o, w.generation)
	case events.KindNodeClaim:
		before := recordNamed(w.NodeClaim(o.Name))
		if c, ok := o.Object.(*karpv1.NodeClaim); ok && c != nil {
			o.Object = w.sharing(c)
		}
		w.claims.fold(w.owner, o, w.generation)
		w.recordChanged(before, recordNamed(w.NodeClaim(o.Name)))
	default:
		if t := w.table(o.Kind); t != nil {
			t.fold(w.owner, o, w.generation)
		}
	}
}

// foldUnreadable keeps the list of objects that exist but are unknown: those the watcher could not publish
// and those whose message carried no object of its kind.
func (w *World) foldUnreadable(o events.Observation) {
	unreadable := o.Op == events.OpUnreadable || o.Op == events.OpUpsert && o.Object == nil
	if !unreadable && w.unreadable.rows.Len() == 0 {
		return
	}
	key := o.Kind.String() + "/" + o.Name
	if unreadable {
		w.unreadable.put(w.owner, key, Unreadable{Kind: o.Kind, Name: o.Name, UID: o.UID}, o, w.generation)
		return
	}
	w.countChange(false)
	w.unreadable.remove(w.owner, key, o.UID)
}

// Position of the World in the stream.
func (w *World) Position() events.Position {
	return events.Position{Incarnation: w.stream.incarnation, Sequence: w.stream.sequence, Digest: w.stream.digest}
}

// AsOf is the time of the last heartbeat; all that happened before it and was published is folded.
func (w *World) AsOf() time.Time { return w.asOf }

// Revision rises whenever something of an object may have changed that planners read, and with no heartbeat.
// It means something only within one World of one process: to know whether to look again. Decisions must not
// depend on it.
func (w *World) Revision() uint64 { return w.revision }

// UnboundRevision is Revision without the changes of pods that have a node.
func (w *World) UnboundRevision() uint64 { return w.unbound }

// Synced reports that a whole resync has been folded. Before, no decision may be taken.
func (w *World) Synced() bool { return w.synced }

// Torn reports that messages are missing since the last whole resync.
func (w *World) Torn() bool { return w.torn }

// IsIncomplete reports that a World lacks objects of kinds that this version does not know. Planners of this
// version need none of them; those of others may.
func IsIncomplete(w *World) bool { return w.unknownIn > 0 }

// Epoch and Counter are of the last accepted message.
func (w *World) Epoch() uint64   { return w.stream.epoch }
func (w *World) Counter() uint64 { return w.stream.counter }

// Ignored counts messages that were late or repeated.
func (w *World) Ignored() uint64 { return w.stream.dropped }
