// Package payloads holds payloads of records about nodes that drain or drift and about the log itself, and
// what several payloads have in common. Package ledger has all of them under the same names, and folds
// them.
//
// Guarantees: plain data, which encoding/json encodes alike every time (structs, slices, string-keyed
// maps).
package payloads

import (
	"encoding/json"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// PodRef names a pod.
type PodRef struct {
	UID       types.UID `json:"uid"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
}

// SignedHead of a log: a record whose hash covers all before it. Package store/audit/heads signs and checks.
type SignedHead struct {
	Seq uint64 `json:"seq"`
	// Hash of the record, hex.
	Hash string    `json:"hash"`
	Time time.Time `json:"time"`
	// Key names the public key; Signature is Ed25519's, in base64.
	Key       string `json:"key"`
	Signature string `json:"signature"`
}

// DroppedNode of a command, with its claim.
type DroppedNode struct {
	Node   string `json:"node"`
	Claim  string `json:"claim"`
	Reason string `json:"reason"`
}

// DrainStarted: the node of a deleting claim is tainted and will be emptied.
type DrainStarted struct {
	Node     string    `json:"node"`
	Claim    string    `json:"claim"`
	ClaimUID types.UID `json:"claimUID,omitempty"`
	// Reason: Empty, Drifted, Underutilized, PreferredAvailable, or Forceful Termination.
	Reason string `json:"reason"`
	// Deadline is the termination timestamp; zero: none.
	Deadline time.Time `json:"deadline,omitzero"`
	// Notice is when EC2 takes the instance away, as far as it is known at the start; zero: nothing says so.
	Notice time.Time `json:"notice,omitzero"`
}

// DrainTierStarted: the pods of one tier are evicted from here on (reference: lifecycle §8.2).
type DrainTierStarted struct {
	Node  string   `json:"node"`
	Tier  int      `json:"tier"`
	Evict []PodRef `json:"evict,omitempty"`
	// Held are pods that are waited for but not evicted (do-not-disrupt).
	Held []PodRef `json:"held,omitempty"`
	// Delete are pods deleted with a shortened grace period because of the deadline.
	Delete []PodRef `json:"delete,omitempty"`
	// Late are those of Evict whose Deployment was to replace them first, but has not done so in time.
	Late []PodRef `json:"late,omitempty"`
	// Paced: nothing is forced yet although the deadline comes, for that of too many others came at once.
	Paced bool `json:"paced,omitempty"`
	// Notice is when EC2 takes the instance away; zero: nothing says so.
	Notice time.Time `json:"notice,omitzero"`
	// Evicted are pods that were evicted before, when it could not be recorded, as of a NodeDrained.
	Evicted []PodRef `json:"evicted,omitempty"`
}

// NodeDrained: nothing is left to wait for. Pods are those the API server listed directly before.
type NodeDrained struct {
	Node  string   `json:"node"`
	Claim string   `json:"claim"`
	Pods  []PodRef `json:"pods,omitempty"`
	// Evicted are pods that no tier names: while the observations were behind, the API server was asked which
	// there are. Some may be missing, of a Node without NodeClaim above all.
	Evicted []PodRef `json:"evicted,omitempty"`
	// VolumesDetached: False if the deadline passed first.
	VolumesDetached bool `json:"volumesDetached"`
}

// DrainEnded closes a drain whose Node is gone.
type DrainEnded struct {
	Node string `json:"node"`
	// Evicted are as of a NodeDrained, if there was none before the Node went.
	Evicted []PodRef `json:"evicted,omitempty"`
}

// DriftJudged says whether some NodeClaims have drifted, each from here on until another says otherwise. It
// changes nothing: what moves the disruptor is the condition Drifted, which lifecycle writes after it.
type DriftJudged struct {
	// Claims are by name.
	Claims []JudgedClaim `json:"claims"`
	// Facts are all that the verdicts follow from (drift.Input as JSON), so that they replay by themselves.
	Facts json.RawMessage `json:"facts"`
}

// JudgedClaim is the verdict on a NodeClaim. Reason is that of the condition; empty if it has not drifted.
type JudgedClaim struct {
	Claim  string    `json:"claim"`
	UID    types.UID `json:"uid"`
	Reason string    `json:"reason,omitempty"`
}

// DrainOutStarted: some nodes are to run empty by themselves, for consolidation would take them away, were it
// not for their pods. They are tainted millwright.sh/drain-out:PreferNoSchedule from here on. It advances the
// nodes and claims. A program that does not know the kind ignores it: then nobody taints, and what is tainted
// is so until one that knows it leads.
type DrainOutStarted struct {
	Nodes []NodeDrainingOut `json:"nodes"`
	// From is the node after which the search began.
	From string `json:"from,omitempty"`
}

// NodeDrainingOut is a node as it was when that was decided.
type NodeDrainingOut struct {
	Node     string    `json:"node"`
	Claim    string    `json:"claim"`
	ClaimUID types.UID `json:"claimUID"`
	NodePool string    `json:"nodePool"`
	// Policy that wants it, and what the node costs per hour, in micro USD.
	Policy string `json:"policy"`
	Price  int64  `json:"price,omitempty"`
	// Pods that hold it, by namespace and name; PodsMore counts those that are not listed.
	Pods     []HoldingPod `json:"pods"`
	PodsMore int          `json:"podsMore,omitempty"`
}

// HoldingPod is a pod that keeps its node, and why: "do-not-disrupt", "Job" or "PodDisruptionBudget ns/name".
type HoldingPod struct {
	PodRef
	Why string `json:"why"`
}

// DrainOutEnded: nodes are not to run empty any more, or are gone. Their taints are to be taken back.
type DrainOutEnded struct {
	Nodes []DroppedNode `json:"nodes"`
}

// SurgeDecided: whether Deployments are to replace pods that nothing stands in for before those are evicted
// from a node that a command takes. Until is when they are evicted the ordinary way all the same. Of two
// records about a pod the later one counts. A program that does not know the kind ignores it, and evicts.
type SurgeDecided struct {
	Node string `json:"node"`
	// Command that takes the node; Policy is the DisruptionPolicy that asks for it.
	Command string        `json:"command"`
	Policy  string        `json:"policy"`
	Owners  []SurgedOwner `json:"owners"`
}

// SurgedOwner is what was decided of the pods of one owner on the node. Either Until or Refused is set.
type SurgedOwner struct {
	Pods []PodRef `json:"pods"`
	// Because says why nothing stands in for them: "one ready replica", or the PodDisruptionBudget.
	Because string `json:"because"`
	// Facts are all that Refused follows from.
	Facts SurgeFacts `json:"facts"`
	// Within is how long the Deployment has, Until when that ends.
	Within time.Duration `json:"within,omitempty"`
	Until  time.Time     `json:"until,omitzero"`
	// Refused says why the owner can't be surged.
	Refused string `json:"refused,omitempty"`
}

// SurgeFacts are what was read of the owner of some pods.
type SurgeFacts struct {
	// Owner is the kind of the pods' controller; empty if they have none.
	Owner string `json:"owner,omitempty"`
	// Volume is a PersistentVolumeClaim of theirs that is for one node at a time.
	Volume string `json:"volume,omitempty"`
	// Failure says why the Deployment could not be read or changed.
	Failure string `json:"failure,omitempty"`
	// Deployment is the namespace/name of the one that controls their ReplicaSet; empty if none does. What
	// follows is the Deployment's; MaxSurge and MaxUnavailable are numbers or percentages.
	Deployment     string    `json:"deployment,omitempty"`
	DeploymentUID  types.UID `json:"deploymentUID,omitempty"`
	Replicas       int32     `json:"replicas,omitempty"`
	Strategy       string    `json:"strategy,omitempty"`
	MaxSurge       string    `json:"maxSurge,omitempty"`
	MaxUnavailable string    `json:"maxUnavailable,omitempty"`
	Paused         bool      `json:"paused,omitempty"`
}

// LedgerCheckpoint says where the Ledger as of a record can be had; it changes nothing.
type LedgerCheckpoint struct {
	// Seq is the last record folded, Digest is Ledger.Digest there, Blob the name of the blob with its
	// compressed Checkpoint.
	Seq    uint64 `json:"seq"`
	Digest string `json:"digest"`
	Blob   string `json:"blob"`
	// Version is the StateVersion of the writer.
	Version uint32 `json:"version"`
	// Previous is the record of the checkpoint before this one; 0 if there was none.
	Previous uint64 `json:"previous,omitempty"`
	// Signed is the head of the log when it was written; nil: nobody signs.
	Signed *SignedHead `json:"signed,omitempty"`
}

// SegmentArchived says which file of the archive holds records that leave the live log then; it changes
// nothing. After a crash the same one may be recorded again.
type SegmentArchived struct {
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	// Hash of the last record and SHA256 of the file, hex.
	Hash   string `json:"hash"`
	File   string `json:"file"`
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
}

// MemoryDiscovered: a node of an instance type registered, which was launched with the image that its
// NodeClass would choose, and has this memory. Catalogues of classes with the same images have that from
// here on instead of what was estimated, until one is seen with less (package memory).
type MemoryDiscovered struct {
	InstanceType string `json:"instanceType"`
	// Images names the images of the NodeClass (memory.Images), ImageID is the node's.
	Images  string `json:"images"`
	ImageID string `json:"imageID"`
	Bytes   int64  `json:"bytes"`
	// Estimated is what the catalogue said before, in bytes.
	Estimated int64  `json:"estimated,omitempty"`
	Node      string `json:"node"`
	Claim     string `json:"claim"`
}

// BundleTaken: somebody got the records From to To, with the observations that lead to them, in one file. It
// changes nothing.
type BundleTaken struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
	// About is what was asked for, in words.
	About string `json:"about"`
	By    string `json:"by"`
	Why   string `json:"why"`
}

// SharesObserved tells whose pods had what spot instances saved in an hour, and whose pods a command moves,
// as far as the console saw them. It changes nothing: savings alone are made of it.
type SharesObserved struct {
	// Label is the key of the label that names the team of a pod; "": there is none, and no team is told.
	Label string `json:"label,omitempty"`
	// Hour that Spot is of, by its beginning. The first record of an hour counts.
	Hour  time.Time   `json:"hour,omitzero"`
	Spot  []SpotShare `json:"spot,omitempty"`
	Moved []MovedPods `json:"moved,omitempty"`
}

// SpotShare is what of the price of a NodePool's spot instances was for the pods of a namespace and a team,
// for as long as it was seen in the hour, in billionths of a USD: what it would have been on demand, and
// what it was. Without a namespace it is for what no pod requested.
type SpotShare struct {
	NodePool  string `json:"nodePool"`
	Namespace string `json:"namespace,omitempty"`
	// Team is "" for pods without the label.
	Team     string `json:"team,omitempty"`
	OnDemand int64  `json:"onDemand"`
	Cost     int64  `json:"cost"`
}

// MovedPods counts the pods of a claim that a command takes by their team, "" for pods without the label.
type MovedPods struct {
	Command string         `json:"command"`
	Claim   string         `json:"claim"`
	Teams   map[string]int `json:"teams"`
}
