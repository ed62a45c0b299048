package view

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"millwright/store/audit"
	"millwright/store/audit/shadow"
)

const (
	// ShadowTimeMax is how long a shadow report may take.
	ShadowTimeMax = 30 * time.Minute
	// ShadowSince is how far back it goes unless asked otherwise.
	ShadowSince = "24h"
)

// ShadowReport compares, for somebody, what happened since a time, or in a span such as 24h, with what was
// decided in mode shadow. It returns ErrNotFound if nothing was, or if nothing of what happened is retained;
// other errors are as of Plan.
func (v *View) ShadowReport(ctx context.Context, who, since string, tell Tell) (*shadow.Report, error) {
	from, err := moment("since", cmp.Or(since, ShadowSince), v.cfg.Now())
	if err != nil {
		return nil, err
	}
	if v.cfg.Stream == nil {
		return nil, fmt.Errorf("%w: the observations are not at hand", ErrNotReady)
	}
	return wholly(ctx, v, who, ShadowTimeMax, func(ctx context.Context) (*shadow.Report, error) {
		head, err := v.cfg.Log.Head(ctx)
		if err != nil {
			return nil, fmt.Errorf("read the log's head: %w", err)
		}
		st, err := v.cfg.Stream.State(ctx)
		if err != nil {
			return nil, fmt.Errorf("ask for stream state: %w", err)
		}
		p := newPace(ctx, tell, head.Seq)
		p.at.LastMessage = st.Last
		if err := tell(EventProgress, p.at); err != nil {
			return nil, err
		}
		report, err := shadow.Compare(ctx, pacedLog{v.cfg.Log, p}, p.stream(v.cfg.Stream), from)
		if errors.Is(err, shadow.ErrNothing) || errors.Is(err, audit.ErrUnsynced) {
			return nil, fmt.Errorf("%w: %w", ErrNotFound, err)
		}
		return report, err
	})
}
