package claims

import "millwright/planner/ledger"

// presume takes an outcome for recorded while the log can't be reached, so that what follows from it goes on:
// a node that registered is initialized too. Nothing of it is kept for the log: afterwards the same outcome
// is found again in what is seen, and recorded. It reports false for outcomes that have to be recorded.
func (m *memory) presume(name string, payload any) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.presumed[name]
	switch o := payload.(type) {
	case *ledger.ClaimRegistered:
		p.state, p.node = ledger.ClaimRegisteredState, o.Node
	case *ledger.ClaimInitialized:
		p.state, p.node = ledger.ClaimInitializedState, o.Node
	case *ledger.InstanceTerminated:
		p.terminated = true
	default:
		return false
	}
	if m.presumed == nil {
		m.presumed = map[string]presumption{}
	}
	m.presumed[name] = p
	return true
}

// presumption is what a claim would be by the outcomes that could not be recorded.
type presumption struct {
	state      ledger.ClaimState
	node       string
	terminated bool
}

// asPresumed changes the copy of a claim accordingly, or forgets all presumptions once the log answers.
func (m *memory) asPresumed(c *ledger.Claim, logAway bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !logAway {
		m.presumed = nil
		return
	}
	p, ok := m.presumed[c.Name]
	if !ok {
		return
	}
	if p.state != "" {
		c.State, c.Node = p.state, p.node
	}
	c.Terminated = c.Terminated || p.terminated
}
