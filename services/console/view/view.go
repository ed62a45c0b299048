package view

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/world"
	"millwright/services/console/history"
	"millwright/services/console/index"
	"millwright/services/console/past"
	"millwright/store"
	"millwright/store/audit"
)

// ErrNotReady: the console has not read enough yet, or cannot; a later attempt may find more.
var ErrNotReady = errors.New("not ready")

// ErrNotFound: nothing is known about what was asked for.
var ErrNotFound = errors.New("not found")

// ErrBusy: too many such questions are being answered.
var ErrBusy = errors.New("too many questions of this kind at once")

// freshFor is how long what was made for one reader is good for the next; shareOfTime, if that is longer, how
// many times as long as it took to make: a large cluster that many look at costs a twentieth of a core.
const (
	freshFor    = time.Second
	shareOfTime = 20
)

// Config of a View.
type Config struct {
	Cluster string
	Log     store.Log
	Index   *index.Index
	// History of the log; nil: nothing of it is told.
	History *history.History
	// Past is of the whole log; nil: what the Index does not hold is not told.
	Past *past.Past
	// Stream of the observations, for taking decisions again; nil: what needs it cannot be.
	Stream audit.Stream
	// Versions are World and Ledger as they are now, or why there are none.
	Versions func() (*world.World, *ledger.Ledger, error)
	// Leaders of the services; nil: nobody can be one.
	Leaders func(ctx context.Context) ([]store.Leader, error)
	Now     func() time.Time
}

// View answers questions. It is safe for concurrent use.
type View struct {
	cfg Config

	mu sync.Mutex
	// made is nil before the first question, and good for a while.
	made    *Now
	goodFor time.Duration
	// refusals are of the records read last, by sequence.
	refusals map[uint64]*ledger.ProvisioningPlanned
	leaders  leaders
	savings  savings
	// asking bounds the stories that are being put together.
	asking   chan struct{}
	planning places
	// whole are the places of what reads all of the log and takes minutes.
	whole places
	waits waits
	stays stays
}

// storiesMax bounds the stories that are put together at a time.
const storiesMax = 4

// New returns a View.
func New(cfg Config) *View {
	return &View{cfg: cfg, refusals: map[uint64]*ledger.ProvisioningPlanned{}, asking: make(chan struct{}, storiesMax),
		planning: places{most: plansMax, taken: ErrPlanning}, whole: places{most: wholeMax, taken: ErrAsking}}
}

// Cluster is the name of the cluster.
func (v *View) Cluster() string { return v.cfg.Cluster }

// Ready returns why nothing can be said about the present; nil if it can.
func (v *View) Ready() error {
	_, _, err := v.versions()
	return err
}

func (v *View) versions() (*world.World, *ledger.Ledger, error) {
	w, l, err := v.cfg.Versions()
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrNotReady, err)
	}
	return w, l, nil
}

// snapshot is of the present; nobody else uses it.
func (v *View) snapshot() (*planner.Snapshot, error) {
	w, l, err := v.versions()
	if err != nil {
		return nil, err
	}
	if !w.Synced() {
		return nil, fmt.Errorf("%w: the cluster has not been seen completely yet", ErrNotReady)
	}
	return planner.NewSnapshot(w, l, v.cfg.Now()), nil
}

// Now is the state of the cluster, at most a second old, or a few seconds if it is large.
func (v *View) Now() (*Now, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.made != nil && v.cfg.Now().Sub(v.made.At).Abs() < v.goodFor {
		return v.made, nil
	}
	s, err := v.snapshot()
	if err != nil {
		return nil, err
	}
	began := v.cfg.Now()
	v.made = makeNow(s)
	v.stays.tell(v.made)
	v.made.At = v.cfg.Now().UTC()
	v.goodFor = max(freshFor, shareOfTime*v.made.At.Sub(began))
	return v.made, nil
}

// leaders as they were read last.
type leaders struct {
	sync.Mutex
	list []store.Leader
	err  error
	at   time.Time
}

const leadersTimeout = 3 * time.Second

// leadersNow are at most a second old.
func (v *View) leadersNow(ctx context.Context) ([]store.Leader, error) {
	if v.cfg.Leaders == nil {
		return nil, nil
	}
	c := &v.leaders
	c.Lock()
	defer c.Unlock()
	if v.cfg.Now().Sub(c.at).Abs() < freshFor {
		return c.list, c.err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leadersTimeout) // the next reader has use for it too
	defer cancel()
	c.list, c.err = v.cfg.Leaders(ctx)
	c.at = v.cfg.Now()
	return c.list, c.err
}
