package world

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright/planner/resource"
)

// Pod is what differs between pods of one class. 60,000 of them must stay small.
type Pod struct {
	UID       types.UID
	Namespace string
	Name      string
	// Class is shared by all pods with an equal spec, labels, relevant annotations, and owner.
	Class *PodClass
	// NodeName is empty while unbound.
	NodeName string
	// NominatedNode is status.nominatedNodeName (preemption).
	NominatedNode string
	// Created, Started and Deleting are Unix nanoseconds; 0 means not set. Deleting is the deletionTimestamp,
	// which includes the grace period.
	Created, Started, Deleting int64
	Phase                      corev1.PodPhase
	// Unschedulable: condition PodScheduled has reason Unschedulable.
	Unschedulable bool
	// UnschedulableSince is that condition's transition time, Unix nanoseconds.
	UnschedulableSince int64
	// UnschedulableMessage is kube-scheduler's own text, interned; for verdicts that quote it.
	UnschedulableMessage string
	// TriedAt is when kube-scheduler last wrote that it does not bind the pod, Unix nanoseconds: it writes
	// only what it has not said before, and may have tried later. 0: it never did, or that is not known.
	TriedAt int64
	// EvictedAt is when the condition DisruptionTarget came, Unix nanoseconds: the pod was evicted,
	// preempted, or deleted for want of its node. 0: it was not.
	EvictedAt int64
	// Ready: condition Ready is True. NotReady: it is False (neither: unknown).
	Ready, NotReady bool
	// Successor: when it came, its owner had a pod to create in place of one that was evicted.
	Successor bool
	// Fleeing: a NoExecute taint has driven the pod from a node of a NodePool within YoungFor of the node's
	// creation. Displaced counts in how many nodes in a row those whose successor it is met with that.
	Fleeing         bool
	Displaced       uint8
	ResourceVersion string
}

// Terminal reports that the pod's containers have ended for good.
func (p *Pod) Terminal() bool { return p.Phase == corev1.PodSucceeded || p.Phase == corev1.PodFailed }

// Active reports that the pod is neither terminal nor being deleted.
func (p *Pod) Active() bool { return !p.Terminal() && p.Deleting == 0 }

// Evicted reports that it was not its owner that deleted the pod, or is about to.
func (p *Pod) Evicted() bool { return p.EvictedAt != 0 }

// Key is "namespace/name".
func (p *Pod) Key() string { return p.Namespace + "/" + p.Name }

// PodClass is everything planners read of a pod that replicas of one workload have in common.
type PodClass struct {
	// Digest identifies the class across folds: hash of the canonical form of the fields below.
	Digest uint64
	Labels map[string]string
	// Annotations holds only karpenter.sh/do-not-disrupt and controller.kubernetes.io/pod-deletion-cost.
	Annotations map[string]string
	// OwnerKind, OwnerAPIVersion, OwnerName, OwnerUID are of the controlling owner; empty if none.
	OwnerKind, OwnerAPIVersion, OwnerName string
	OwnerUID                              types.UID
	// Spec is trimmed: no env, args, commands, image pull secrets; never changed after it was folded.
	Spec *corev1.PodSpec
	// Requests is the effective request (reference: scheduling §4), pods: 1 included.
	Requests resource.Vector
}

// DaemonSetOwned reports that an apps/v1 DaemonSet controls the pods.
func (c *PodClass) DaemonSetOwned() bool {
	return c.OwnerKind == "DaemonSet" && c.OwnerAPIVersion == "apps/v1"
}

// Replica reports pods whose owner is known to create another one for each that is evicted: a ReplicaSet,
// StatefulSet or ReplicationController.
func (c *PodClass) Replica() bool {
	switch c.OwnerAPIVersion {
	case "apps/v1":
		return c.OwnerKind == "ReplicaSet" || c.OwnerKind == "StatefulSet"
	case "v1":
		return c.OwnerKind == "ReplicationController"
	}
	return false
}

func (c *PodClass) stateful() bool { return c.OwnerKind == "StatefulSet" }

// Static reports a mirror pod, owned by its Node.
func (c *PodClass) Static() bool { return c.OwnerKind == "Node" && c.OwnerAPIVersion == "v1" }

// Node is a Node with the sums over its pods that planners need.
type Node struct {
	Object *corev1.Node
	// Capacity and Allocatable are converted from Object's status.
	Capacity, Allocatable resource.Vector
	// Used sums the requests of the bound pods that are not terminal, terminating ones included.
	Used resource.Vector
	// DaemonUsed is the part of Used that DaemonSet pods hold.
	DaemonUsed resource.Vector
}

// Instance is an EC2 instance tagged as ours, as last seen.
type Instance struct {
	ID           string            `json:"ID"`
	State        string            `json:"State"`
	InstanceType string            `json:"InstanceType"`
	Zone         string            `json:"Zone"`
	CapacityType string            `json:"CapacityType"`
	LaunchTime   time.Time         `json:"LaunchTime"`
	Tags         map[string]string `json:"Tags"`
}
