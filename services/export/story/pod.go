package story

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"millwright/planner/ledger"
)

const (
	// legsMax bounds the decisions on a pod that its story tells of, the newest; stepsMax the states of a
	// claim that the stories of its pods tell of, the first.
	legsMax  = 5
	stepsMax = 20
)

// pending is the story of a pod without a node, from the first record about it until it is bound or deleted.
type pending struct {
	uid   types.UID
	name  string
	since mark
	// refused says why it was, first.
	refused string
	legs    []leg
	// from is the first record that it depends on.
	from uint64
}

// leg is a decision on where a pod is to go.
type leg struct {
	at   mark
	node string
	// of is the claim that it waits for; nil: the node was there.
	of *growth
}

// state of a claim that is over.
type state struct {
	name     string
	from, to mark
	failed   string
}

// pendingPod returns the story of a pod, which begins now if nothing has begun it; nil for the virtual pods
// of CapacityBuffers, and if there are too many.
func (t *Teller) pendingPod(p ledger.PodRef, at mark) *pending {
	x := t.pending[p.UID]
	if x == nil && len(t.pending) < podsMax && !virtual(p) {
		x = &pending{uid: p.UID, name: p.Namespace + "/" + p.Name, since: at, from: at.seq}
		t.pending[p.UID] = x
	}
	return x
}

// virtual pods are those of the name that the planner gives them, of which the UID is a part.
func virtual(p ledger.PodRef) bool {
	at := strings.LastIndexByte(p.Name, '-')
	return at > 0 && strings.HasPrefix(p.Name, "capacity-buffer-") && strings.HasSuffix(string(p.UID), p.Name[at:])
}

func (t *Teller) refusedPod(p ledger.PodRef, reasons []ledger.Refusal, at mark) {
	x := t.pendingPod(p, at)
	if x == nil || x.refused != "" {
		return
	}
	for _, r := range reasons {
		if text := strings.TrimSpace(r.NodePool + ": " + r.Message); len(x.refused) < textMax {
			x.refused = clip(strings.TrimPrefix(x.refused+"; "+strings.TrimPrefix(text, ": "), "; "))
		}
	}
}

// decidedPod notes where a pod is to go: onto a node, or what a claim becomes.
func (t *Teller) decidedPod(p ledger.PodRef, node string, of *growth, at mark) {
	x := t.pendingPod(p, at)
	if x == nil {
		return
	}
	if n := len(x.legs); n > 0 && x.legs[n-1].node == node && x.legs[n-1].of == of {
		return
	}
	if of != nil {
		x.from = min(x.from, of.thread.seq)
	}
	if x.legs = append(x.legs, leg{at, node, of}); len(x.legs) > legsMax {
		x.legs = slices.Delete(x.legs, 0, 1)
	}
}

// endPod tells the story of a pod. failed is empty if it is bound or deleted.
func (t *Teller) endPod(uid types.UID, at mark, failed string) {
	x := t.pending[uid]
	if x == nil {
		return
	}
	delete(t.pending, uid)
	th := newThread(t.logID, fmt.Sprintf("pod/%s/%d", uid, x.since.seq), x.since.seq, x.since.at)
	about := []Attribute{{"k8s.pod.uid", string(uid)}, {"millwright.pod", x.name}}
	if len(x.legs) == 0 || x.legs[0].at.seq > x.since.seq {
		until := at
		if len(x.legs) > 0 {
			until = x.legs[0].at
		}
		s := th.span("refused", string(uid), x.since.at, until.at, until.seq, about...)
		s.Attributes = append(s.Attributes, Attribute{"millwright.text", x.refused})
		t.out = append(t.out, s)
	}
	var links []Link
	for i, l := range x.legs {
		until := at
		if i+1 < len(x.legs) {
			until = x.legs[i+1].at
		}
		t.tellLeg(th, &l, until, about)
		if l.of != nil {
			links = append(links, Link{l.of.thread.trace, l.of.thread.root})
		}
	}
	root := th.end("pod to node", at.at, at.seq, failed, append(about, Attribute{"millwright.pod.end", "bound, or deleted"})...)
	root.Links = links
	t.out = append(t.out, root)
}

// tellLeg tells of a decision, what became of its claim meanwhile, and how long the pod then took.
func (t *Teller) tellLeg(th *thread, l *leg, until mark, about []Attribute) {
	what := l.node
	if l.of != nil {
		what = l.of.claim
		about = append(slices.Clip(about), Attribute{"millwright.claim", what})
	} else {
		about = append(slices.Clip(about), Attribute{"millwright.node", what})
	}
	t.out = append(t.out, th.span("decided", what, l.at.at, l.at.at, l.at.seq, about...))
	last := l.at
	if l.of != nil {
		for _, s := range l.of.states {
			if s.to.seq <= l.at.seq || s.to.seq > until.seq {
				continue
			}
			from := s.from
			if from.seq < l.at.seq {
				from = l.at
			}
			x := th.span(s.name, what, from.at, s.to.at, s.to.seq, about...)
			x.Failed = s.failed
			t.out, last = append(t.out, x), s.to
		}
	}
	t.out = append(t.out, th.span("waits", what, last.at, until.at, until.seq, about...))
}

// noteState keeps a state of a claim for the stories of its pods.
func (g *growth) noteState(name string, to mark) {
	if len(g.states) < stepsMax {
		g.states = append(g.states, state{name: name, from: g.since, to: to})
	}
}

// sweepPods ends the stories of pods that take too long: those that are refused are forgotten.
func (t *Teller) sweepPods(at mark) {
	for _, uid := range sortedKeys(t.pending) {
		switch x := t.pending[uid]; {
		case len(x.legs) == 0 && at.at.Sub(x.since.at) > waitMax:
			delete(t.pending, uid)
		case at.at.Sub(x.since.at) > storyMax:
			t.endPod(uid, at, "unfinished")
		}
	}
}
