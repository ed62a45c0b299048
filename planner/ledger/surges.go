package ledger

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

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
