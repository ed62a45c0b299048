package account

import (
	"slices"

	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/options"
)

// WithPrices completes a command that plans no places for pods with what it costs before and after, and how
// many pods its nodes lose, if the rules have that said. Without a price of what comes none is said.
func WithPrices(s *planner.Snapshot, c *ledger.CommandStarted) *ledger.CommandStarted {
	if s.Options.Revision < options.Revision1 {
		return c
	}
	before, after := int64(0), int64(0)
	for i := range c.Candidates {
		before += c.Candidates[i].Price
		c.Evictions += len(c.Candidates[i].Pods)
	}
	for i := range c.Replacements {
		after += c.Replacements[i].Cheapest.MicroUSDPerHour
	}
	if !slices.ContainsFunc(c.Replacements, func(r ledger.PlannedClaim) bool { return r.Cheapest.InstanceType == "" }) {
		c.PriceBefore, c.PriceAfter = before, after
	}
	return c
}
