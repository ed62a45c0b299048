package fold

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"millwright/planner/ledger"
	"millwright/planner/ledger/compact"
	"millwright/services/internal/clock"
	"millwright/services/internal/service"
	"millwright/store"
	"millwright/store/record"
)

const (
	// kindsEvery is how often the candidates and the kinds they know are read.
	kindsEvery   = 2 * time.Second
	kindsTimeout = 2 * time.Second
)

// watchKinds reads the candidates until ctx ends.
func (s *State) watchKinds(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := s.ReadKinds(ctx); err != nil && ctx.Err() == nil {
			s.logger.Debug().Err(err).Msg("versions of the other services not known")
		}
		_ = clock.Sleep(ctx, kindsEvery)
	}
	return nil
}

// ReadKinds reads what the candidates of all services know.
func (s *State) ReadKinds(ctx context.Context) error {
	if s.Candidates == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, kindsTimeout)
	defer cancel()
	list, err := s.Candidates(ctx)
	if err != nil {
		return fmt.Errorf("read candidates: %w", err)
	}
	s.Others.Store(&list)
	return nil
}

// Format is the highest format of records that every candidate reads.
func (s *State) Format() int {
	if s.Candidates == nil {
		return record.Format
	}
	list := s.Others.Load()
	if list == nil {
		return record.FormatPlain
	}
	lowest := record.Format
	for _, c := range *list {
		n, err := strconv.Atoi(c.Info[store.InfoFormat])
		if err != nil {
			return record.FormatPlain
		}
		lowest = min(lowest, n)
	}
	return max(lowest, record.FormatPlain)
}

// Compact returns a payload in the form to write: the compact one, if all candidates can read that.
func (s *State) Compact(payload any) any {
	if s.Format() < record.FormatWhole {
		return payload
	}
	return compact.Payload(payload)
}

// HeldBack returns an error that names who does not know a kind that readers must not skip.
func (s *State) HeldBack(k ledger.Kind) error {
	list := s.Others.Load()
	if list == nil || k.Ignorable() {
		return nil
	}
	for _, c := range *list {
		set := cmp.Or(ledger.KindSet(c.Info[store.InfoKinds]), ledger.KindsFirst)
		if !set.Has(k) {
			return fmt.Errorf("%s: %s of version %q (%s) does not know it: %w", k, c.Service, c.Info["version"], c.Identity, service.ErrHeldBack)
		}
	}
	return nil
}
