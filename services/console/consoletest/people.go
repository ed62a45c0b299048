package consoletest

import (
	"context"
	"fmt"
	"slices"

	"millwright/services/console/access"
	"millwright/services/internal/review"
)

// People are identities, whose names are their tokens, with their rights.
type People map[string][]review.Right

// Everybody is somebody of each kind.
func Everybody() People {
	return People{"viewer": {access.Read, access.Plan}, "operator": {access.Read, access.Plan, access.Approve, access.Control, access.Bundle}, "reader": {access.Read}, "planner": {access.Read, access.Plan},
		"nobody": {}}
}

// Identify knows the tokens.
func (p People) Identify(_ context.Context, _, token string) (*review.Identity, error) {
	if _, ok := p[token]; !ok {
		return nil, review.ErrUnknown
	}
	return &review.Identity{Name: token}, nil
}

// Check refuses what somebody has no right to.
func (p People) Check(_ context.Context, who *review.Identity, right review.Right, _ bool) error {
	if slices.Contains(p[who.Name], right) {
		return nil
	}
	return fmt.Errorf("%w: %s may not %s", review.ErrForbidden, who.Name, right)
}
