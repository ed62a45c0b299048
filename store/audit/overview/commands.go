package overview

import (
	"cmp"
	"slices"
	"time"

	"millwright/planner/ledger"
	"millwright/store/audit"
)

// CommandLine is a running or proposed command.
type CommandLine struct {
	ID    string `json:"id"`
	State string `json:"state"`
	// Reason and Method of the decision; Saves in micro USD per hour, 0 if that is not known.
	Reason    string    `json:"reason"`
	Method    string    `json:"method"`
	Nodes     []string  `json:"nodes"`
	Evictions int       `json:"evictions"`
	New       int       `json:"replacements"`
	Saves     int64     `json:"saves"`
	At        time.Time `json:"at"`
	// Until is when a proposal expires, or a rejection ends; By and Why are of the answer.
	Until time.Time `json:"until,omitzero"`
	By    string    `json:"by,omitempty"`
	Why   string    `json:"why,omitempty"`
	// Record that started or proposed it.
	Record uint64 `json:"record"`
}

// CommandStates are those that a CommandLine may be in, as users write them.
var CommandStates = []string{"proposed", "approved", "rejected", "started", "confirmed"}

// Commands are the proposals and the commands that run, oldest first.
func Commands(l *ledger.Ledger) []CommandLine {
	list := []CommandLine{}
	for _, p := range l.Proposals() {
		x := commandLine(p.ID, string(p.State), p.At, &p.Proposed.Command)
		x.Record, x.Until = p.Seq, p.Proposed.Expires
		if a := p.Answer; a != nil {
			x.By, x.Why = a.By, a.Why
			if !a.Approved {
				x.Until = a.Until
			}
		}
		list = append(list, x)
	}
	for _, c := range l.Commands() {
		x := commandLine(c.ID, string(c.State), c.At, &c.Started)
		x.Record = c.Seq
		list = append(list, x)
	}
	slices.SortFunc(list, func(a, b CommandLine) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID)) })
	return list
}

// SavesText is what it saves, for people; "" for nothing, or if that is not known.
func (c *CommandLine) SavesText() string {
	switch {
	case c.Saves == 0:
		return ""
	case c.Saves < 0:
		return "-" + audit.Price(-c.Saves)
	}
	return audit.Price(c.Saves)
}

func commandLine(id, state string, at time.Time, c *ledger.CommandStarted) CommandLine {
	x := CommandLine{ID: id, State: state, Reason: string(c.Reason), Method: c.Method, Nodes: []string{}, Evictions: c.Evictions,
		New: len(c.Replacements), Saves: audit.Saved(c), At: at}
	for _, n := range c.Candidates {
		x.Nodes = append(x.Nodes, n.Node)
	}
	return x
}
