package audit

import (
	"fmt"
	"slices"
	"strings"

	"millwright/planner/ledger"
)

// forceful is the reason of a drain that no command asked for.
const forceful = "Forceful Termination"

// leaving says why nodes are emptied.
type leaving struct {
	// asked is the first record that asks for the end of a claim, though no command takes it.
	asked map[string]uint64
	// takers are the commands that take nodes, by node and by claim; confirmed and rolledBack is when
	// commands were, by id.
	takers, confirmed, rolledBack map[string]uint64
	// waitsFor are the NodeClaims that commands await before they delete others, by the latter;
	// initialized is when claims were, and known are those of which more than the plan is among the
	// entries.
	waitsFor    map[string][]string
	initialized map[string]uint64
	known       map[string]bool
	// causes are the records, in a pod's story, for which it had to leave a node; near are the subjects of
	// these records.
	causes map[uint64]bool
	near   map[string]bool
}

// leave finds what asks for the end of claims, and what took the nodes that the pods of a story had to leave.
func (st *story) leave(entries []ledger.Entry) {
	st.leaving = leaving{
		asked: map[string]uint64{}, takers: map[string]uint64{}, confirmed: map[string]uint64{}, rolledBack: map[string]uint64{},
		waitsFor: map[string][]string{}, initialized: map[string]uint64{}, known: map[string]bool{}, causes: map[uint64]bool{}, near: map[string]bool{},
	}
	drains := map[string]ledger.Entry{} // by node
	for _, e := range entries {
		switch p := e.Payload.(type) {
		case *ledger.ClaimDoomed:
			st.ask(p.Claim, e.Seq)
		case *ledger.CommandRolledBack:
			st.rolledBack[p.ID] = e.Seq
			for _, u := range p.Unused {
				st.ask(u.Claim, e.Seq)
			}
		case *ledger.ProvisioningPlanned:
			for _, x := range p.Excess {
				st.ask(x.Claim, e.Seq)
			}
		case *ledger.CommandStarted:
			st.take(e.Seq, p)
		case *ledger.CommandReduced:
			for _, n := range p.Dropped {
				delete(st.takers, "node/"+n.Node)
				delete(st.takers, "claim/"+n.Claim)
				delete(st.waitsFor, n.Claim)
			}
		case *ledger.CommandConfirmed:
			st.confirmed[p.ID] = e.Seq
		case *ledger.ClaimCreated:
			st.known[p.Claim] = true
		case *ledger.ClaimInitialized:
			st.initialized[p.Claim] = e.Seq
		case *ledger.DrainStarted:
			drains[p.Node] = e
		case *ledger.DrainTierStarted:
			if st.ofPod() && (st.holdsSubject(p.Evict) || st.holdsSubject(p.Held) || st.holdsSubject(p.Delete) || st.holdsSubject(p.Evicted)) {
				st.cause(p.Node, drains[p.Node])
			}
		case *ledger.NodeDrained:
			if st.ofPod() && st.holdsSubject(p.Evicted) {
				st.cause(p.Node, drains[p.Node])
			}
		case *ledger.DrainEnded:
			if st.ofPod() && st.holdsSubject(p.Evicted) {
				st.cause(p.Node, drains[p.Node])
			}
		}
	}
}

// take notes which nodes a command takes, and what for it waits before it does.
func (st *story) take(seq uint64, p *ledger.CommandStarted) {
	var claims []string
	for i := range p.Replacements {
		claims = append(claims, claimName(st.logID, p.Replacements[i].NodePool, seq, i))
	}
	for _, c := range p.Candidates {
		st.takers["node/"+c.Node], st.takers["claim/"+c.Claim], st.waitsFor[c.Claim] = seq, seq, claims
		if st.about["node/"+c.Node] || st.about["claim/"+c.Claim] || st.near["node/"+c.Node] {
			for _, name := range claims {
				st.near["claim/"+name] = true
			}
		}
	}
}

func (st *story) ask(claim string, seq uint64) {
	if st.asked[claim] == 0 {
		st.asked[claim] = seq
	}
}

// cause notes why a node is emptied that a pod of the story is on.
func (st *story) cause(node string, drain ledger.Entry) {
	st.near["node/"+node] = true
	p, ok := drain.Payload.(*ledger.DrainStarted)
	if !ok {
		return // not among the entries yet
	}
	st.near["claim/"+p.Claim] = p.Claim != ""
	st.causes[drain.Seq] = true
	if p.Reason != forceful {
		st.causes[st.takers["node/"+node]] = true
	}
	if asked := st.asked[p.Claim]; asked > 0 {
		st.causes[asked] = true
	}
}

// somebody says that no record asks for the end of a claim that is recorded here; nothing if one does, or if
// a command may have deleted it.
func (st *story) somebody(claim string, seq uint64) []string {
	if asked := st.asked[claim]; claim == "" || asked > 0 && asked < seq || st.mayDelete(claim, seq) {
		return nil
	}
	return []string{"no record asks for it: somebody else deleted its NodeClaim, or its Node"}
}

// mayDelete reports that a command which takes a claim was confirmed before a record, and neither waited then
// nor was rolled back.
func (st *story) mayDelete(claim string, seq uint64) bool {
	taker := st.takers["claim/"+claim]
	if taker == 0 {
		return false
	}
	id := ledger.CommandID(st.logID, taker)
	at, back := st.confirmed[id], st.rolledBack[id]
	return at > 0 && at < seq && (back == 0 || back > seq) && !st.waits(claim, seq)
}

// waits reports that the command which takes a claim waited for a replacement at a record.
func (st *story) waits(claim string, seq uint64) bool {
	return slices.ContainsFunc(st.waitsFor[claim], func(name string) bool {
		at := st.initialized[name]
		return st.known[name] && (at == 0 || at > seq)
	})
}

// sooner says that a node whose command still waited for a replacement is drained because of somebody else;
// nothing if the command did not wait any more, or if another record asks for the end of the claim.
func (st *story) sooner(claim string, seq uint64) []string {
	if !st.waits(claim, seq) || len(st.somebody(claim, seq)) == 0 {
		return nil
	}
	return []string{"its command still waited for a replacement: somebody else deleted its NodeClaim, or its Node"}
}

// leaves says what the drain of a node does with the pod of the story.
func (st *story) leaves(p *ledger.DrainTierStarted) (text string, ok bool) {
	how := ""
	switch {
	case !st.ofPod():
	case st.holdsSubject(p.Evicted):
		return fmt.Sprintf("drain of node %s: %s was evicted before, as the API server listed it, because the observations or the log were behind", p.Node,
			strings.Replace(st.subject, "/", " ", 1)), true
	case st.holdsSubject(p.Delete):
		how = "is deleted, because the node goes at its deadline"
	case st.holdsSubject(p.Evict):
		how = "is evicted"
	case st.holdsSubject(p.Held):
		how = "must not be evicted, and is waited for"
	}
	if how == "" {
		return "", false
	}
	others := len(slices.Concat(p.Evict, p.Held, p.Delete)) - 1
	return fmt.Sprintf("drain of node %s, tier %d with %d other pods: %s %s", p.Node, p.Tier, others, named(st.ofStory(p)), how), true
}

// listed says that the pod of the story was evicted without a tier, by when what became true.
func (st *story) listed(node, became string, evicted []ledger.PodRef) (text string, ok bool) {
	if !st.ofPod() || !st.holdsSubject(evicted) {
		return "", false
	}
	return fmt.Sprintf("node %s is %s: %s was evicted as the API server listed it, because the observations were behind", node, became, strings.Replace(st.subject, "/", " ", 1)), true
}

// ofStory are the pods of a tier that the story is of.
func (st *story) ofStory(p *ledger.DrainTierStarted) []ledger.PodRef {
	return slices.DeleteFunc(slices.Concat(p.Delete, p.Evict, p.Held), func(r ledger.PodRef) bool { return !st.holdsSubject([]ledger.PodRef{r}) })[:1]
}
