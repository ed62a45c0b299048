package process

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"millwright/store"
)

const (
	// rotaEvery is how often the leaders of services that this process does not lead are read, rotaTimeout
	// bounds that.
	rotaEvery   = 2 * time.Second
	rotaTimeout = 2 * time.Second
	// unledMax is how long a service may be without a known leader; a takeover is over long before.
	unledMax = 10 * time.Second
)

// rota knows since when nobody has led a unit of this process, here or elsewhere. It is safe for concurrent
// use.
type rota struct {
	elector  store.Elector
	identity string
	clock    func() time.Time
	gauge    *prometheus.GaugeVec
	master   *prometheus.GaugeVec

	mu    sync.Mutex
	posts map[string]*post
}

// post is a unit on the rota.
type post struct {
	// leading: this process leads it.
	leading bool
	// ledAt is when it was last known to have a leader.
	ledAt time.Time
	// lack is what the last look found instead of a leader.
	lack string
}

func newRota(p *Parts, identity string, clock func() time.Time, r prometheus.Registerer) *rota {
	o := &rota{elector: p.Elector, identity: identity, clock: clock, posts: map[string]*post{}, gauge: newLedGauge(r), master: newMasterGauge(r)}
	for _, u := range p.Units {
		o.posts[u.Name] = &post{ledAt: clock(), lack: "nobody stands for it"}
		o.master.WithLabelValues(u.Name).Set(0)
	}
	return o
}

// leads notes that this process begins or ceases to lead a unit.
func (o *rota) leads(unit string, leading bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.posts[unit]
	p.leading, p.ledAt = leading, o.clock()
	master := 0.0
	if leading {
		master = 1
	}
	o.master.WithLabelValues(unit).Set(master)
	o.show()
}

// run looks until ctx ends.
func (o *rota) run(ctx context.Context) error {
	tick := time.NewTicker(rotaEvery)
	defer tick.Stop()
	for {
		o.lookAtLeaders(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// lookAtLeaders reads who leads. If this process is first in the queue, it leads only if it knows that
// itself.
func (o *rota) lookAtLeaders(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, rotaTimeout)
	defer cancel()
	list, err := o.elector.Leaders(ctx)
	first := map[string]string{}
	for _, l := range list {
		first[l.Service] = l.Identity
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for unit, p := range o.posts {
		identity, found := first[unit]
		switch {
		case p.leading:
			p.ledAt = o.clock()
		case err != nil:
			p.lack = "the log does not tell who leads: " + err.Error()
		case !found:
			p.lack = "nobody stands for it"
		case identity == o.identity:
			p.lack = "this instance is first in line and does not lead"
		default:
			p.ledAt = o.clock()
		}
	}
	o.show()
}

// show sets the gauges.
func (o *rota) show() {
	for unit, p := range o.posts {
		led := 1.0
		if o.unled(p) > unledMax {
			led = 0
		}
		o.gauge.WithLabelValues(unit).Set(led)
	}
}

// unled is how long it has had no known leader.
func (o *rota) unled(p *post) time.Duration {
	if p.leading {
		return 0
	}
	now := o.clock()
	if p.ledAt.After(now) { // the clock was set back: it counts from now on
		p.ledAt = now
	}
	return now.Sub(p.ledAt)
}

// check fails while a service is led by nobody.
func (o *rota) check() Check {
	return Check{Name: "leaders", Probe: func() error {
		o.mu.Lock()
		defer o.mu.Unlock()
		var errs []error
		for unit, p := range o.posts {
			if d := o.unled(p); d > unledMax {
				errs = append(errs, fmt.Errorf("nobody is known to lead %s for %s: %s", unit, d.Round(time.Second), p.lack))
			}
		}
		return errors.Join(errs...)
	}}
}
