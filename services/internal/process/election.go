package process

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/rs/zerolog"

	"millwright/services/internal/clock"
	"millwright/store"
)

const (
	resignTimeout   = 3 * time.Second
	campaignWaitMax = 5 * time.Second
	// stepBackMax is how long a unit that may no longer lead keeps its leadership while it ends what it does.
	stepBackMax = 90 * time.Second
)

// candidate campaigns for one unit, leads while it can, and campaigns again.
type candidate struct {
	unit     Unit
	elector  store.Elector
	fit      func() error
	identity string
	info     map[string]string
	logger   zerolog.Logger
	// leads is called when this instance begins and ceases to lead.
	leads func(leading bool)
}

func (c candidate) run(ctx context.Context) error {
	pause := backoff.NewExponentialBackOff(backoff.WithMaxElapsedTime(0), backoff.WithInitialInterval(100*time.Millisecond),
		backoff.WithMaxInterval(campaignWaitMax))
	lost := false // the leadership was lost, nobody knows yet to whom
	for ctx.Err() == nil {
		if err := c.failed(); err != nil {
			c.logger.Error().Err(err).Msg("not a candidate any more")
			<-ctx.Done()
			break
		}
		fit, end := c.whileFit(ctx)
		lead, err := c.campaign(fit, lost)
		if err != nil {
			unfit := fit.Err() != nil
			end()
			if !unfit {
				c.logger.Warn().Err(err).Msg("campaign failed")
				_ = clock.Sleep(ctx, pause.NextBackOff())
			}
			continue
		}
		c.logger.Info().Str("identity", c.identity).Int64("revision", lead.Lease().Revision).Msg("leading")
		err = c.lead(fit, lead)
		end()
		lost = errors.Is(err, store.ErrFenced)
		c.resign(lead)
		switch {
		case ctx.Err() != nil:
		case err == nil || errors.Is(err, store.ErrFenced):
			c.logger.Warn().Err(err).Msg("leadership lost")
			pause.Reset()
		default:
			c.logger.Error().Err(err).Msg("stepped back after an error")
			_ = clock.Sleep(ctx, pause.NextBackOff())
		}
	}
	return nil
}

// lead leads until the unit has ended what it does. It does not count as leading once its leadership is gone,
// whatever it still waits for; one that may no longer lead and does not end gives up its leadership
// nevertheless, after a time in which every effect should have ended.
func (c candidate) lead(fit context.Context, lead store.Leadership) error {
	c.leads(true)
	ended := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-ended:
			return
		case <-lead.Done():
		case <-fit.Done():
			select {
			case <-ended:
				return
			case <-lead.Done():
			case <-time.After(stepBackMax):
				c.logger.Error().Dur("waited", stepBackMax).Msg("still busy though it may lead no more: others may")
				c.resign(lead)
			}
		}
		c.leads(false)
	})
	err := c.unit.Lead(fit, lead)
	close(ended)
	watch.Wait()
	c.leads(false)
	return err
}

// campaign waits until this instance leads. In the meantime the last leader may carry on; it ends that before
// it leads again.
func (c candidate) campaign(ctx context.Context, lost bool) (store.Leadership, error) {
	if lost && c.unit.RunDegraded != nil {
		degraded, end := context.WithCancel(ctx)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if err := c.unit.RunDegraded(degraded); err != nil {
				c.logger.Warn().Err(err).Msg("carrying on ended")
			}
		}()
		defer func() { end(); <-ended }()
	}
	return c.elector.Campaign(ctx, store.Candidacy{Service: c.unit.Name, Identity: c.identity, Info: c.info, Deposable: c.unit.Deposable})
}

// whileFit waits until the unit may lead, or ctx ends, and returns a context that ends when it no longer may.
func (c candidate) whileFit(ctx context.Context) (fit context.Context, end func()) {
	fit, cancel := context.WithCancel(ctx)
	if c.fit == nil {
		return fit, cancel
	}
	if err := c.fit(); err != nil {
		c.logger.Warn().Err(err).Msg("no candidate for now")
		for c.fit() != nil && ctx.Err() == nil {
			_ = clock.Sleep(ctx, fitEvery)
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for fit.Err() == nil {
			if err := c.fit(); err != nil {
				cancel()
			}
			_ = clock.Sleep(fit, fitEvery)
		}
	}()
	return fit, func() { cancel(); <-ended }
}

func (c candidate) failed() error {
	if c.unit.Failed == nil {
		return nil
	}
	return c.unit.Failed()
}

// WhileLeading adapts a function that runs until its context ends to Unit.Lead.
func WhileLeading(run func(context.Context) error) func(context.Context, store.Leadership) error {
	return func(ctx context.Context, l store.Leadership) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		ended := make(chan struct{})
		defer close(ended)
		go func() {
			select {
			case <-l.Done():
				cancel(store.ErrFenced)
			case <-ended:
			}
		}()
		err := run(ctx)
		if cause := context.Cause(ctx); errors.Is(cause, store.ErrFenced) {
			return cause
		}
		return err
	}
}

func (c candidate) resign(lead store.Leadership) {
	ctx, cancel := context.WithTimeout(context.Background(), resignTimeout)
	defer cancel()
	if err := lead.Resign(ctx); err != nil {
		c.logger.Debug().Err(err).Msg("leadership not resigned, it expires")
	}
}
