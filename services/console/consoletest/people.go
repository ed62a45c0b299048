package consoletest

import (
	"context"
	"fmt"
	"slices"

	"millwright/services/console/access"
)

// People are identities, whose names are their tokens, with their rights.
type People map[string][]access.Right

// Everybody is somebody of each kind.
func Everybody() People {
	return People{"viewer": {access.Read, access.Plan}, "operator": {access.Read, access.Plan, access.Approve, access.Control}, "reader": {access.Read},
		"nobody": {}}
}

// Identify knows the tokens.
func (p People) Identify(_ context.Context, _, token string) (*access.Identity, error) {
	if _, ok := p[token]; !ok {
		return nil, access.ErrUnknown
	}
	return &access.Identity{Name: token}, nil
}

// Check refuses what somebody has no right to.
func (p People) Check(_ context.Context, who *access.Identity, right access.Right, _ bool) error {
	if slices.Contains(p[who.Name], right) {
		return nil
	}
	return fmt.Errorf("%w: %s may not %s", access.ErrForbidden, who.Name, right)
}
