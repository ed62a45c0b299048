package ledger

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

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

// SurgeWithinMax is the longest that a Deployment may have.
const SurgeWithinMax = time.Hour

// Surge is what was decided of a pod of a node that drains.
type Surge struct {
	Seq uint64    `json:"seq"`
	At  time.Time `json:"at"`
	// Deployment is its namespace/name.
	Deployment string `json:"deployment,omitempty"`
	// Until is when the pod is evicted all the same; zero if its owner can't be surged.
	Until time.Time `json:"until,omitzero"`
}

// Running reports that the pod is not evicted yet, for its Deployment replaces it.
func (s Surge) Running(now time.Time) bool { return now.Before(s.Until) }

// foldSurge applies a SurgeDecided to the drain of its node.
func (l *Ledger) foldSurge(e Entry, p *SurgeDecided) {
	d := edit(l.owner, &l.drains, p.Node)
	if d == nil {
		return
	}
	d.Surges = maps.Clone(d.Surges)
	if d.Surges == nil {
		d.Surges = map[types.UID]Surge{}
	}
	for i := range p.Owners {
		o := &p.Owners[i]
		for _, pod := range o.Pods {
			d.Surges[pod.UID] = Surge{Seq: e.Seq, At: e.Time.UTC(), Deployment: o.Facts.Deployment, Until: o.Until.UTC()}
		}
	}
}
