package ledger

import (
	"cmp"
	"maps"
	"slices"
	"time"

	mwv1alpha1 "millwright/api/millwright/v1alpha1"
)

// LostReturns counts the times that EC2 took back nodes of a NodePool which commands with reason
// PreferredAvailable had made: as long as that goes on, what is preferred is not there to stay.
type LostReturns struct {
	// Times that are less than returnsApart apart count once.
	Times int       `json:"times"`
	At    time.Time `json:"at"`
}

const (
	returnsApart = 10 * time.Minute
	// returnsMemory is how long losses count after the last one.
	returnsMemory = 48 * time.Hour
	// returnsMax bounds the NodePools that are remembered; the oldest is forgotten first.
	returnsMax = 1000
)

// LostReturns of a NodePool at a time; zero if there were none.
func (l *state) LostReturns(nodePool string, now time.Time) LostReturns {
	if x := l.returns[nodePool]; now.Sub(x.At) < returnsMemory {
		return x
	}
	return LostReturns{}
}

// foldReturned notes on the replacements of a command that has succeeded what they were made for.
func (l *Ledger) foldReturned(cmd *Command) {
	if cmd.Started.Reason != mwv1alpha1.ReasonPreferredAvailable {
		return
	}
	for i := range cmd.Started.Replacements {
		if c := l.editClaim(l.ClaimName(cmd.Started.Replacements[i].NodePool, cmd.Seq, i)); c != nil {
			c.Returned = true
		}
	}
}

// foldReturnLost counts a claim that goes because EC2 has no room for it any more.
func (l *Ledger) foldReturnLost(e Entry, c *Claim, p *ClaimDoomed) {
	if !c.Returned || c.Doomed != nil || len(p.Unavailable) == 0 {
		return
	}
	at := e.Time.UTC()
	x := l.LostReturns(c.NodePool, at)
	if x.Times > 0 && at.Sub(x.At) < returnsApart {
		return
	}
	l.returns = with(l.returns, c.NodePool, LostReturns{Times: x.Times + 1, At: at})
	maps.DeleteFunc(l.returns, func(_ string, x LostReturns) bool { return at.Sub(x.At) >= returnsMemory })
	if len(l.returns) > returnsMax {
		delete(l.returns, slices.MinFunc(slices.Sorted(maps.Keys(l.returns)), func(a, b string) int {
			return cmp.Or(l.returns[a].At.Compare(l.returns[b].At), cmp.Compare(a, b))
		}))
	}
}

// disbelieveReturns brings the times of losses back to now.
func (l *Ledger) disbelieveReturns(now time.Time) {
	for _, pool := range slices.Sorted(maps.Keys(l.returns)) {
		x := l.returns[pool]
		x.At = earlier(x.At, now)
		l.returns = with(l.returns, pool, x)
	}
}
