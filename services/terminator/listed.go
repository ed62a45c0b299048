package terminator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright/planner/condition"
	"millwright/planner/drain"
	"millwright/planner/ledger"
	"millwright/services/internal/kube"
	"millwright/services/internal/service"
)

const (
	// conditionEvicted of a NodeClaim names the pods that were evicted from its node while that could not be
	// recorded, so that the next terminator knows them if this one dies before it can.
	conditionEvicted = "millwright.sh/EvictedUnrecorded"
	reasonEvicted    = "LogUnreachable"
	// listedMax bounds the pods that are remembered of a node, listedBytesMax the message of the condition,
	// which the NodeClaim's CRD limits to 32,768.
	listedMax      = 500
	listedBytesMax = 30_000
	// keepTriesMax is how often nothing is evicted from a node because its condition could not be written.
	keepTriesMax = 3
)

// noteListed records the tier of pods that the API server listed, as an outcome, for no World shows them.
// If it cannot be recorded, they are remembered, here and in the NodeClaim, until it is recorded that the
// node is drained or gone. An error says that nothing is to be evicted yet.
func (s *Service) noteListed(ctx context.Context, p *plan, step drain.Step) error {
	name := p.node.Name
	var tier *ledger.DrainTierStarted
	known := false
	err := s.host.Ledger(func(l *ledger.Ledger) error {
		if d := l.Drain(name); d != nil {
			tier, known = step.TierStarted(d), true
		}
		return nil
	})
	if err == nil && tier != nil && !s.host.LogAway() {
		_, err = s.host.Outcome(ctx, service.Outcome{Kind: ledger.KindDrainTierStarted, Payload: tier, Subjects: []string{"node/" + name},
			Causation: p.started, Advances: []string{ledger.NodeAggregate(name)}})
		if err == nil {
			return nil
		}
	}
	if err == nil && tier == nil && known {
		return nil // all are on record
	}
	for _, d := range step.Delete {
		s.listed.add(name, drain.Ref(d.Pod))
	}
	for _, ref := range drain.Refs(step.Evict) {
		s.listed.add(name, ref)
	}
	return s.keepListed(ctx, p)
}

// keepListed writes what is remembered of a node into its NodeClaim. What the API server does not want, or
// could not take several times, keeps nobody from evicting.
func (s *Service) keepListed(ctx context.Context, p *plan) error {
	text := listedText(s.listed.of(p.node.Name))
	if p.claim == nil || !s.listed.isNew(p.node.Name, text) {
		return nil
	}
	want := metav1.Condition{Type: conditionEvicted, Status: metav1.ConditionTrue, Reason: reasonEvicted, Message: text}
	err := s.kube.SetClaimCondition(ctx, p.claim.Name, p.claim.UID, want, s.host.Now())
	switch class := kube.Classify(err); {
	case class == kube.None:
		s.listed.kept(p.node.Name, text)
		return nil
	case class == kube.Transient || class == kube.Conflict:
		if s.listed.failed(p.node.Name) < keepTriesMax {
			return fmt.Errorf("keep evictions of node %s in nodeclaim %s: %w", p.node.Name, p.claim.Name, err)
		}
	}
	s.logger.Warn().Err(err).Str("node", p.node.Name).Str("nodeclaim", p.claim.Name).Msg("evicting what may never be recorded")
	return nil
}

// recallListed reads what a predecessor wrote into NodeClaims.
func (s *Service) recallListed(nodes []leaving) {
	for _, l := range nodes {
		if l.claim == nil {
			continue
		}
		if c := condition.Get(l.claim.Status.Conditions, conditionEvicted); c != nil && c.Status == metav1.ConditionTrue && c.Reason == reasonEvicted {
			for _, ref := range parseListed(c.Message) {
				s.listed.add(l.node.Name, ref)
			}
		}
	}
}

// recordListed records what was evicted from nodes as soon as that can be recorded.
func (s *Service) recordListed(ctx context.Context, nodes []leaving) error {
	var errs []error
	for _, l := range nodes {
		name := l.node.Name
		refs := s.listed.of(name)
		if len(refs) == 0 {
			continue
		}
		var tier *ledger.DrainTierStarted
		started := uint64(0)
		err := s.host.Ledger(func(l *ledger.Ledger) error {
			if d := l.Drain(name); d != nil && d.Drained == 0 {
				tier, started = &ledger.DrainTierStarted{Node: name, Tier: d.Tier, Evicted: refs}, d.Seq
			}
			return nil
		})
		if err == nil && tier != nil {
			_, err = s.host.Outcome(ctx, service.Outcome{Kind: ledger.KindDrainTierStarted, Payload: tier, Subjects: []string{"node/" + name},
				Causation: started, Advances: []string{ledger.NodeAggregate(name)}})
			if err == nil {
				s.listed.recorded(name, refs)
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("record evictions of node %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// listedText names pods as namespace/name/uid, with a space between them. Those that are too many are left
// out.
func listedText(refs []ledger.PodRef) string {
	b := strings.Builder{}
	for _, r := range refs {
		text := r.Namespace + "/" + r.Name + "/" + string(r.UID)
		if b.Len()+1+len(text) > listedBytesMax {
			break
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(text)
	}
	return b.String()
}

// parseListed reads what listedText wrote; what it did not write is left out.
func parseListed(text string) (refs []ledger.PodRef) {
	for _, word := range strings.Fields(text) {
		if parts := strings.Split(word, "/"); len(parts) == 3 {
			refs = append(refs, ledger.PodRef{Namespace: parts[0], Name: parts[1], UID: types.UID(parts[2])})
		}
	}
	return refs
}

// listedPods are those that were evicted without a tier, by node, until it is recorded that it is drained or
// gone. Effects add to it.
type listedPods struct {
	mu     sync.Mutex
	byNode map[string]listedNode
}

type listedNode struct {
	pods []ledger.PodRef
	// done are those that are recorded.
	done []ledger.PodRef
	// text that its NodeClaim has, and how often it could not be written.
	text  string
	fails int
	// unseen is since when the API server lists pods that the World does not show; zero while it does not.
	unseen time.Time
}

func (l *listedPods) add(node string, ref ledger.PodRef) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.byNode[node]; len(n.pods) < listedMax && !slices.Contains(n.pods, ref) && !slices.Contains(n.done, ref) {
		n.pods = append(n.pods, ref)
		l.byNode[node] = n
	}
}

// unseenFor is how long the API server has listed pods of a node that the World does not show: of what could
// not be published, or not be read, it never will.
func (l *listedPods) unseenFor(node string, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.byNode[node]
	if n.unseen.IsZero() {
		n.unseen = now
		l.byNode[node] = n
	}
	return now.Sub(n.unseen).Abs()
}

// seen says that the World shows pods of a node.
func (l *listedPods) seen(node string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n, known := l.byNode[node]; known {
		n.unseen = time.Time{}
		l.byNode[node] = n
	}
}

func (l *listedPods) of(node string) []ledger.PodRef {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.byNode[node].pods)
}

// recorded moves pods of a node to those that are on record.
func (l *listedPods) recorded(node string, refs []ledger.PodRef) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.byNode[node]
	n.pods = slices.DeleteFunc(slices.Clone(n.pods), func(r ledger.PodRef) bool { return slices.Contains(refs, r) })
	if len(n.done) < listedMax {
		n.done = append(n.done, refs...)
	}
	l.byNode[node] = n
}

// isNew reports that the NodeClaim of a node is not known to have a text.
func (l *listedPods) isNew(node, text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byNode[node].text != text
}

func (l *listedPods) kept(node, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.byNode[node]
	n.text, n.fails = text, 0
	l.byNode[node] = n
}

// failed counts a write that failed, and returns how many did.
func (l *listedPods) failed(node string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.byNode[node]
	n.fails++
	l.byNode[node] = n
	return n.fails
}

// keep forgets the other nodes.
func (l *listedPods) keep(nodes map[string]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.byNode, func(node string, _ listedNode) bool { return !nodes[node] })
}
