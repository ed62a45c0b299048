package provisioner_test

import (
	"context"
	"errors"

	"millwright/planner"
	"millwright/services/internal/service"
	"millwright/store"
)

// interfering does something right before the first decision is appended.
type interfering struct {
	service.Host
	before    func()
	conflicts int
}

func (i *interfering) Decide(ctx context.Context, b planner.Basis, d planner.Decision) (store.Record, error) {
	if i.before != nil {
		i.before()
		i.before = nil
	}
	rec, err := i.Host.Decide(ctx, b, d)
	if errors.Is(err, store.ErrConflict) {
		i.conflicts++
	}
	return rec, err
}
