package topology

import (
	"fmt"
	"slices"
	"strings"

	"millwright/planner/bitset"
)

// Constraint is what a pod demands of a group.
type Constraint struct {
	Kind  Kind
	Group *Group
	Term  Term
	// Self: the selector matches the pod itself.
	Self bool
	// Pod are the domains that exist for the pod and its own requirements allow. nil for the hostname.
	Pod bitset.Set

	allowed   bitset.Set
	bootstrap bool
	at        int // version of the group for which allowed was computed
}

// Allowed returns the domains the pod may use now; the result is valid until the group changes. one means
// that the pod must commit to a single one of them.
func (c *Constraint) Allowed() (allowed bitset.Set, one bool) {
	if c.allowed == nil || c.at != c.Group.Version {
		c.compute()
		c.at = c.Group.Version
	}
	return c.allowed, c.Kind == Spread || c.Kind == AntiAffinity || c.bootstrap
}

func (c *Constraint) compute() {
	g := c.Group
	c.allowed, c.bootstrap = g.Domains.NewMask(), false
	switch c.Kind {
	case Spread:
		least := c.least()
		for i := range g.Domains.Len() {
			if c.Pod.Has(i) && g.counts[i]+c.selfCount()-least <= c.Term.MaxSkew {
				c.allowed.Add(i)
			}
		}
	case Affinity:
		found := false
		for i := range g.Domains.Len() {
			if c.Pod.Has(i) && g.counts[i] > 0 {
				c.allowed.Add(i)
				found = true
			}
		}
		if !found && c.Self {
			c.bootstrap = true
			copy(c.allowed, c.Pod)
		}
	default:
		for i := range g.Domains.Len() {
			if g.counts[i] == 0 {
				c.allowed.Add(i)
			}
		}
	}
}

func (c *Constraint) selfCount() int32 {
	if c.Self {
		return 1
	}
	return 0
}

// least is the lowest count over the pod's domains; 0 if they are fewer than minDomains.
func (c *Constraint) least() int32 {
	least, n := int32(-1), int32(0)
	for i := range c.Group.Domains.Len() {
		if !c.Pod.Has(i) {
			continue
		}
		n++
		if x := c.Group.counts[i]; least < 0 || x < least {
			least = x
		}
	}
	if n < c.Term.MinDomains || least < 0 {
		return 0
	}
	return least
}

// AllowsPlace answers for the hostname: may the pod go to place i? lasting means that a negative answer will
// not change.
func (c *Constraint) AllowsPlace(i int) (ok, lasting bool) {
	n := c.Group.Count(i)
	switch c.Kind {
	case Spread: // a node can always be added: the minimum is 0
		return n+c.selfCount() <= c.Term.MaxSkew, true
	case Affinity:
		return n > 0 || c.Self && c.Group.total == 0, false
	}
	return n == 0, true
}

// Hopeless reports that no domain and no place is allowed until other pods are placed: the pods that this one
// must be with are not placed yet.
func (c *Constraint) Hopeless() bool {
	return c.Kind == Affinity && !c.Self && c.Group.total == 0 && !c.Group.Elusive
}

// Dismiss removes a domain that no longer exists from those the pod may use; false if it was not among them.
// Admit restores it.
func (c *Constraint) Dismiss(i int) bool {
	if !c.Pod.Has(i) {
		return false
	}
	c.Pod.Remove(i)
	c.allowed = nil
	return true
}

// Admit undoes Dismiss.
func (c *Constraint) Admit(i int) {
	c.Pod.Add(i)
	c.allowed = nil
}

// NeedsDomain reports that a node without the key is not allowed.
func (c *Constraint) NeedsDomain() bool { return c.Kind == Spread || c.Kind == Affinity }

// Exclusive reports that a place with any counted pod never allows this one.
func (c *Constraint) Exclusive() bool {
	switch c.Kind {
	case Spread:
		return c.Term.MaxSkew <= c.selfCount()
	case Affinity:
		return false
	}
	return true
}

// Holds reports, of a pod that is already counted in domain or place i, that the constraint is met.
func (c *Constraint) Holds(i int) bool {
	n := c.Group.Count(i)
	switch c.Kind {
	case Spread:
		least := int32(0)
		if c.Group.Domains != nil {
			least = c.least()
		}
		return i >= 0 && n-least <= c.Term.MaxSkew
	case Affinity:
		return i >= 0 && (n > c.selfCount() || c.Self && c.Group.total <= 1)
	}
	return i < 0 || n <= c.selfCount()
}

// SkewExcess is by how much the counts exceed what a spread allows, summed over the pod's domains.
func (c *Constraint) SkewExcess() (sum int64) {
	least := c.least()
	for i := range c.Group.Domains.Len() {
		if c.Pod.Has(i) {
			sum += int64(max(0, c.Group.counts[i]-least-c.Term.MaxSkew))
		}
	}
	return sum
}

// SameBound reports that two spreads of one group allow the same counts.
func (c *Constraint) SameBound(o *Constraint) bool {
	return c.Term.MaxSkew == o.Term.MaxSkew && c.Term.MinDomains == o.Term.MinDomains && slices.Equal(c.Pod, o.Pod)
}

// shownMax is how many domains an error lists.
const shownMax = 25

// Error is the text that users see (scheduling §8.5). podDomains and nodeDomains are requirements in words.
func (c *Constraint) Error(podDomains, nodeDomains string) string {
	var counts []string
	if d := c.Group.Domains; d != nil {
		for i := range min(d.Len(), shownMax) {
			counts = append(counts, fmt.Sprintf("%s: %d", d.Name(i), c.Group.counts[i]))
		}
	}
	return fmt.Sprintf("unsatisfiable topology constraint for %s, key=%s (counts = %s, podDomains = %s, nodeDomains = %s",
		c.Kind, c.Term.Key, strings.Join(counts, ", "), podDomains, nodeDomains)
}
