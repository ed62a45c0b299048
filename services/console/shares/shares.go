package shares

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/world"
	"millwright/services/console/history"
	"millwright/services/internal/clock"
	"millwright/store"
	"millwright/store/audit"
)

const (
	// every is how often it is looked whose pods there are.
	every = 15 * time.Second
	// gather is how long further commands are waited for after one.
	gather = 200 * time.Millisecond
	// appendTimeout bounds an attempt to write a record.
	appendTimeout = 10 * time.Second
	// commandsMax bounds the commands that wait to be looked at, freshFor how old their records may be: later
	// their pods are gone. dueMax bounds the records that wait to be written.
	commandsMax, dueMax = 1000, 100
	freshFor            = 10 * time.Minute
)

// Config of an Observer.
type Config struct {
	// Label is the key of the label that names the team of a pod; "": teams are not noted.
	Label string
	Log   store.Log
	// Versions are World and Ledger as they are now, or why there are none.
	Versions func() (*world.World, *ledger.Ledger, error)
	// History of all records that there are; nil while they are being read.
	History func() *history.History
	Now     func() time.Time
	Logger  zerolog.Logger
}

// Observer sees shares and notes them. Met may be called at any time, Run once.
type Observer struct {
	cfg  Config
	wake chan struct{}

	mu sync.Mutex
	// met are the commands that are to be looked at, oldest first.
	met []ledger.Entry

	// The rest is Run's: the hour that sums are of, when they were added to last, and the records to be
	// written.
	hour, last time.Time
	sums       map[owner]*amounts
	due        []*ledger.SharesObserved
}

// New returns an Observer; it has no side effects.
func New(cfg Config) *Observer {
	return &Observer{cfg: cfg, wake: make(chan struct{}, 1), sums: map[owner]*amounts{}}
}

// Met takes in a new record, in case it is a command whose pods are to be looked at before they are gone.
func (o *Observer) Met(e ledger.Entry) {
	if _, ok := e.Payload.(*ledger.CommandStarted); !ok || o.cfg.Label == "" || e.Mode != ledger.ModeActive || o.cfg.Now().Sub(e.Time) > freshFor {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.met) < commandsMax {
		o.met = append(o.met, e)
	}
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// Run observes until ctx ends. What fails is tried again.
func (o *Observer) Run(ctx context.Context) {
	for ctx.Err() == nil {
		if h := o.cfg.History(); h != nil {
			o.look(h)
			o.write(ctx)
		}
		wait, stop := context.WithTimeout(ctx, every)
		select {
		case <-o.wake:
			_ = clock.Sleep(ctx, gather)
		case <-wait.Done():
		}
		stop()
	}
}

// look at the cluster as it is.
func (o *Observer) look(h *history.History) {
	w, l, err := o.cfg.Versions()
	if err != nil || !w.Synced() {
		return
	}
	now := o.cfg.Now()
	o.commands(h, w)
	o.spot(h, planner.NewSnapshot(w, l, now), now)
}

// commands notes of which teams the pods of the commands are that were met.
func (o *Observer) commands(h *history.History, w *world.World) {
	o.mu.Lock()
	met := o.met
	o.met = nil
	o.mu.Unlock()
	p := &ledger.SharesObserved{Label: o.cfg.Label}
	for _, e := range met {
		id := ledger.CommandID(o.cfg.Log.ID(), e.Seq)
		for _, c := range e.Payload.(*ledger.CommandStarted).Candidates {
			if h.TeamsTold(id, c.Claim) {
				continue
			}
			teams := map[string]int{}
			for _, ref := range c.Pods {
				if pod := w.Pod(ref.UID); pod != nil {
					teams[pod.Class.Labels[o.cfg.Label]]++
				}
			}
			if len(teams) > 0 {
				p.Moved = append(p.Moved, ledger.MovedPods{Command: id, Claim: c.Claim, Teams: teams})
			}
		}
	}
	if len(p.Moved) > 0 {
		o.enqueue(p)
	}
}

// enqueue a record to be written.
func (o *Observer) enqueue(p *ledger.SharesObserved) {
	if len(o.due) < dueMax {
		o.due = append(o.due, p)
	}
}

// write the records that are due.
func (o *Observer) write(ctx context.Context) {
	for len(o.due) > 0 {
		err := o.append(ctx, o.due[0])
		if err != nil {
			o.cfg.Logger.Warn().Err(err).Msg("shares of savings not recorded")
			return
		}
		o.due = o.due[1:]
	}
}

func (o *Observer) append(ctx context.Context, p *ledger.SharesObserved) error {
	draft, err := audit.SharesDraft(p)
	if err != nil {
		return err
	}
	draft.Time = o.cfg.Now()
	ctx, cancel := context.WithTimeout(ctx, appendTimeout)
	defer cancel()
	if _, err := o.cfg.Log.Append(ctx, draft); err != nil {
		return fmt.Errorf("record shares of savings: %w", err)
	}
	return nil
}
