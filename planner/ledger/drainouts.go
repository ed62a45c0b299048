package ledger

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// DrainOut of a node. One that has ended is remembered for DrainOutPause, in which no other begins.
type DrainOut struct {
	Seq      uint64    `json:"seq"`
	At       time.Time `json:"at"`
	Claim    string    `json:"claim"`
	ClaimUID types.UID `json:"claimUID"`
	NodePool string    `json:"nodePool"`
	Policy   string    `json:"policy"`
	// Ended is zero while it lasts.
	Ended time.Time `json:"ended,omitzero"`
}

const (
	// DrainOutPause is how long a node is left alone after it was no longer to run empty: what pods and
	// budgets do from minute to minute must not taint it and take that back again and again.
	DrainOutPause = 10 * time.Minute
	// DrainOutsMax bounds the nodes that drain out at a time; the fold keeps as many again that have ended.
	DrainOutsMax = 500
)

// DrainOut of a node, ended or not; false if there is none.
func (l *state) DrainOut(node string) (DrainOut, bool) {
	d, ok := l.drainOuts[node]
	return d, ok
}

// DrainOuts are the nodes that drain out, by the record and then by name.
func (l *state) DrainOuts() []string {
	return slices.SortedFunc(func(yield func(string) bool) {
		for node, d := range l.drainOuts {
			if d.Ended.IsZero() && !yield(node) {
				return
			}
		}
	}, func(a, b string) int {
		return cmp.Or(cmp.Compare(l.drainOuts[a].Seq, l.drainOuts[b].Seq), cmp.Compare(a, b))
	})
}

// foldDrainOuts applies a record about nodes that drain out.
func (l *Ledger) foldDrainOuts(e Entry) {
	kept := maps.Clone(l.drainOuts)
	if kept == nil {
		kept = map[string]DrainOut{}
	}
	switch p := e.Payload.(type) {
	case *DrainOutStarted:
		for _, n := range p.Nodes {
			kept[n.Node] = DrainOut{Seq: e.Seq, At: e.Now.UTC(), Claim: n.Claim, ClaimUID: n.ClaimUID, NodePool: n.NodePool, Policy: n.Policy}
		}
	case *DrainOutEnded:
		for _, n := range p.Nodes {
			if d, ok := kept[n.Node]; ok && d.Claim == n.Claim && d.Ended.IsZero() {
				d.Ended = e.Now.UTC()
				kept[n.Node] = d
			}
		}
	}
	maps.DeleteFunc(kept, func(_ string, d DrainOut) bool { return !d.Ended.IsZero() && e.Now.Sub(d.Ended) >= DrainOutPause })
	for len(kept) > 2*DrainOutsMax {
		delete(kept, slices.MinFunc(slices.Sorted(maps.Keys(kept)), func(a, b string) int {
			return cmp.Or(kept[a].At.Compare(kept[b].At), cmp.Compare(a, b))
		}))
	}
	l.drainOuts = kept
}

// forgetDrainOut drops what is known of the node of a claim that is gone.
func (l *Ledger) forgetDrainOut(claim string) {
	for node, d := range l.drainOuts {
		if d.Claim == claim {
			l.drainOuts = maps.Clone(l.drainOuts)
			delete(l.drainOuts, node)
			return
		}
	}
}

// disbelieveDrainOuts brings the times of drain-outs back to now.
func (l *Ledger) disbelieveDrainOuts(now time.Time) {
	for _, node := range slices.Sorted(maps.Keys(l.drainOuts)) {
		d := l.drainOuts[node]
		d.At, d.Ended = earlier(d.At, now), earlier(d.Ended, now)
		l.drainOuts = with(l.drainOuts, node, d)
	}
}
