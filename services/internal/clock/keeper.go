package clock

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rs/zerolog"
)

const (
	// lookEvery is how often the clock is checked.
	lookEvery = time.Second
	// silenceMax is how long all witnesses may be silent before one is asked.
	silenceMax   = 15 * time.Second
	probeTimeout = 5 * time.Second
)

// Keeper asks a witness when none has answered for a while, and reports changes of the clock's state.
type Keeper struct {
	Clock *Clock
	// Probe sends a witness any request; its transport takes in the Date of the answer.
	Probe  func(ctx context.Context) error
	Logger zerolog.Logger
}

// Run checks the clock until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	last := k.Clock.Check()
	for {
		if k.due() {
			k.probe(ctx)
		}
		last = k.logChange(last)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// due: no witness has answered for a while, or what they said is not enough.
func (k *Keeper) due() bool {
	silence, heard := k.Clock.Silence()
	return !heard || silence > silenceMax || k.Clock.Check() != nil
}

// probe asks, and asks those again that contradict the clock: nothing else talks to them while the process
// stands down. An answer of any kind will do, so an error only means that there may be none.
func (k *Keeper) probe(ctx context.Context) {
	for _, ask := range k.questions() {
		k.askOnce(ctx, ask)
	}
}

func (k *Keeper) questions() []func(context.Context) error {
	all := []func(context.Context) error{k.Probe}
	for _, name := range k.Clock.doubters() {
		all = append(all, func(ctx context.Context) error { return k.Clock.askWitness(ctx, name) })
	}
	return all
}

func (k *Keeper) askOnce(ctx context.Context, question func(context.Context) error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if err := question(ctx); err != nil && ctx.Err() == nil {
		k.Logger.Debug().Err(err).Msg("witness of the time refused")
	}
}

// logChange logs a change and returns the present state.
func (k *Keeper) logChange(last error) error {
	now := k.Clock.Check()
	switch {
	case now != nil && last == nil:
		k.Logger.Error().Err(now).Msg("clock cannot be relied on: standing down")
	case now == nil && last != nil:
		k.Logger.Info().Msg("clock can be relied on")
	}
	return now
}

// Register registers the metrics of a clock.
func Register(r prometheus.Registerer, c *Clock) {
	promauto.With(r).NewGaugeFunc(prometheus.GaugeOpts{Namespace: "millwright", Name: "clock_unreliable",
		Help: "Whether the clock of the process cannot be relied on (1), so that it leads, decides and begins nothing, or can (0)."}, func() float64 {
		if c.Check() != nil {
			return 1
		}
		return 0
	})
	r.MustRegister(offsets{c, prometheus.NewDesc("millwright_clock_offset_seconds",
		"How far the clock of the process is ahead of a witness's, below 0 behind: the middle of what is known.", []string{"witness"}, nil)})
}

type offsets struct {
	clock *Clock
	desc  *prometheus.Desc
}

func (o offsets) Describe(ch chan<- *prometheus.Desc) { ch <- o.desc }

func (o offsets) Collect(ch chan<- prometheus.Metric) {
	for _, x := range o.clock.Offsets() {
		ch <- prometheus.MustNewConstMetric(o.desc, prometheus.GaugeValue, (x.Min+x.Max).Seconds()/2, x.Witness)
	}
}
