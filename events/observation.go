package events

import (
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"
	"k8s.io/apimachinery/pkg/types"
)

// Kind of the object an Observation is about. Numbers are part of the wire format and never reused.
type Kind uint8

// The kinds. Object types: the k8s.io/api type of that name, the api types for NodePool, NodeClaim and
// EC2NodeClass, and the types of aws.go for the rest.
const (
	KindNone                  Kind = 0 // resync marks and heartbeats
	KindPod                   Kind = 1
	KindNode                  Kind = 2
	KindNodeClaim             Kind = 3
	KindNodePool              Kind = 4
	KindEC2NodeClass          Kind = 5
	KindDaemonSet             Kind = 6
	KindPodDisruptionBudget   Kind = 7
	KindPersistentVolumeClaim Kind = 8
	KindPersistentVolume      Kind = 9
	KindStorageClass          Kind = 10
	KindCSINode               Kind = 11
	KindVolumeAttachment      Kind = 12
	KindNamespace             Kind = 13
	KindPriorityClass         Kind = 14
	KindNodeOverlay           Kind = 15
	KindDisruptionPolicy      Kind = 16
	KindCapacityBuffer        Kind = 17
	KindPodTemplate           Kind = 18
	KindDeployment            Kind = 19
	KindStatefulSet           Kind = 20
	KindReplicaSet            Kind = 21
	KindCatalog               Kind = 32
	KindPrices                Kind = 33
	KindInstanceState         Kind = 34
	KindInterruption          Kind = 35
)

var kindNames = map[Kind]string{
	KindNone: "None", KindPod: "Pod", KindNode: "Node", KindNodeClaim: "NodeClaim", KindNodePool: "NodePool",
	KindEC2NodeClass: "EC2NodeClass", KindDaemonSet: "DaemonSet", KindPodDisruptionBudget: "PodDisruptionBudget",
	KindPersistentVolumeClaim: "PersistentVolumeClaim", KindPersistentVolume: "PersistentVolume",
	KindStorageClass: "StorageClass", KindCSINode: "CSINode", KindVolumeAttachment: "VolumeAttachment",
	KindNamespace: "Namespace", KindPriorityClass: "PriorityClass", KindNodeOverlay: "NodeOverlay",
	KindDisruptionPolicy: "DisruptionPolicy", KindCapacityBuffer: "CapacityBuffer", KindPodTemplate: "PodTemplate",
	KindDeployment: "Deployment", KindStatefulSet: "StatefulSet", KindReplicaSet: "ReplicaSet", KindCatalog: "Catalog", KindPrices: "Prices",
	KindInstanceState: "InstanceState", KindInterruption: "Interruption",
}

func (k Kind) String() string {
	if s, ok := kindNames[k]; ok {
		return s
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// IsKnown reports that this version knows the kind.
func (k Kind) IsKnown() bool {
	_, ok := kindNames[k]
	return ok
}

// Op says what happened. Numbers are part of the wire format.
type Op uint8

const (
	OpUpsert      Op = 1
	OpDelete      Op = 2
	OpResyncBegin Op = 3 // starts an epoch: what it does not mention is dropped at its end
	OpResyncEnd   Op = 4
	OpHeartbeat   Op = 5 // Object is *Heartbeat
	OpUnreadable  Op = 6 // the object exists but is over MaxObjectBytes after trimming; no Object
)

// MaxObjectBytes bounds one encoded object; a larger one is published as OpUnreadable, by name.
const MaxObjectBytes = 1 << 20

// Observation is one fact.
type Observation struct {
	// Epoch of the watcher that saw it; a later epoch is higher. Never 0.
	Epoch uint64
	// Counter within the epoch; rises by one with each message of the watcher.
	Counter uint64
	Kind    Kind
	Op      Op
	// UID of the object. For AWS kinds: the instance id, the NodeClass name, or "" for prices.
	UID types.UID
	// Name is "namespace/name", or "name" for what has no namespace.
	Name            string
	ResourceVersion string
	// ObservedAt is the watcher's clock. It is the only source of World time (as-of).
	ObservedAt time.Time
	// Object is nil for OpDelete, OpUnreadable and resync marks. It is shared: never change it.
	Object any
}

// Heartbeat is published each second. Its ObservedAt becomes the World's as-of once it is folded.
type Heartbeat struct {
	// Progress is, per kind, the newest resourceVersion or poll time the watcher has published.
	Progress map[string]string `json:"progress,omitempty"`
	// Sums of what the watcher knows of each kind of Kubernetes object, by kind's name; only in some
	// heartbeats, and never during a resync. A World that has folded all messages before this one holds
	// exactly these objects.
	Sums map[string]Sum `json:"sums,omitempty"`
}

// Sum of the objects of one kind: how many there are, and the exclusive or of a hash of each one's name, UID
// and resourceVersion. It does not depend on an order.
type Sum struct {
	Count int    `json:"count"`
	Hash  uint64 `json:"hash,string"`
}

// Add puts an object into the sum; Remove takes it out.
func (s *Sum) Add(name string, uid types.UID, resourceVersion string) {
	s.Count++
	s.Hash ^= hashOf(name, uid, resourceVersion)
}

// Remove takes an object out of the sum that was added with the same words.
func (s *Sum) Remove(name string, uid types.UID, resourceVersion string) {
	s.Count--
	s.Hash ^= hashOf(name, uid, resourceVersion)
}

// AddIn is Add of an object in a namespace.
func (s *Sum) AddIn(namespace, name string, uid types.UID, resourceVersion string) {
	s.Count++
	s.Hash ^= hashOfParts(namespace, "/", name, "\x00", string(uid), "\x00", resourceVersion)
}

// hashOf holds in every version: watcher and readers of different ones compare it.
func hashOf(name string, uid types.UID, resourceVersion string) uint64 {
	return hashOfParts(name, "\x00", string(uid), "\x00", resourceVersion)
}

// hashOfParts hashes the parts joined.
func hashOfParts(parts ...string) uint64 {
	var buf [512]byte // what is longer goes to the heap
	joined := buf[:0]
	for _, p := range parts {
		joined = append(joined, p...)
	}
	return xxhash.Sum64(joined)
}

// Position names a point of the observation stream.
type Position struct {
	// Incarnation is the stream's name; it changes when a stream lost messages that were already folded.
	Incarnation string `json:"incarnation"`
	Sequence    uint64 `json:"sequence"`
	// Digest is the running 64-bit digest of the accepted messages up to Sequence.
	Digest uint64 `json:"digest,string"`
}
