package selfcheck_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"

	"millwright/events"
	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/services/internal/selfcheck"
	"millwright/store"
	"millwright/store/audit"
	"millwright/store/audit/recording"
)

// site is what an end-to-end test recorded, as a log that is still there.
type site struct {
	*recording.Recording
	head uint64
	// change is made to each record that is read.
	change func(*store.Record)
	// err fails every reading of the stream, slow delays it, lost has it hold nothing any more.
	err  error
	slow time.Duration
	lost bool
	// asked is when the stream was asked for.
	asked []time.Time
}

func open(t *testing.T) *site {
	t.Helper()
	rec, err := recording.Open(fmt.Sprintf("../../../store/audit/testdata/v%d/TestPodsGetNodesAndEmptyNodesGo_in_one_process.rec", planner.Version))
	if err != nil {
		t.Fatal(err)
	}
	s := &site{Recording: rec}
	for {
		records, err := rec.Read(t.Context(), s.head+1, 500)
		if err != nil {
			t.Fatal(err)
		}
		if len(records) == 0 {
			return s
		}
		s.head = records[len(records)-1].Seq
	}
}

func (s *site) Head(context.Context) (store.Head, error)          { return store.Head{Seq: s.head}, nil }
func (s *site) Aggregate(context.Context, string) (uint64, error) { return 0, nil }
func (s *site) GetBlob(context.Context, string) ([]byte, error)   { return nil, store.ErrNotFound }

func (s *site) Read(ctx context.Context, from uint64, limit int) ([]store.Record, error) {
	records, err := s.Recording.Read(ctx, from, limit)
	records = slices.Clone(records)
	for i := range records {
		if s.change != nil {
			s.change(&records[i])
		}
	}
	return records, err
}

func (s *site) State(ctx context.Context) (events.StreamState, error) {
	s.asked = append(s.asked, time.Now())
	time.Sleep(s.slow)
	if s.err != nil {
		return events.StreamState{}, s.err
	}
	st, err := s.Recording.State(ctx)
	if s.lost {
		st.Incarnation = "another"
	}
	return st, err
}

// rig is a Checker of a site.
type rig struct {
	*selfcheck.Checker
	registry *prometheus.Registry
	text     bytes.Buffer
}

func check(s *site, change ...func(*selfcheck.Config)) *rig {
	r := &rig{registry: prometheus.NewRegistry()}
	cfg := selfcheck.Config{Log: s, Stream: s, Every: time.Minute, Logger: zerolog.New(&r.text), Registerer: r.registry}
	for _, fn := range change {
		fn(&cfg)
	}
	r.Checker = selfcheck.New(cfg)
	return r
}

// counted are the checks by outcome, as they are scraped.
func (r *rig) counted(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "millwright_replay_checks_total" {
				counts[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
			}
		}
	}
	return counts
}

// kinds of the decisions on record that can be taken again, with how many there are.
func (s *site) kinds(t *testing.T) map[ledger.Kind]int {
	t.Helper()
	records, err := s.Read(t.Context(), 1, int(s.head))
	if err != nil {
		t.Fatal(err)
	}
	found := map[ledger.Kind]int{}
	for _, rec := range records {
		if e, err := audit.Decode(rec); err == nil && audit.Replayable(e) {
			found[e.Kind]++
		}
	}
	return found
}

// Of every kind the newest decision is taken again, and comes out as it is recorded; then there is nothing
// left to check.
func TestEveryKindOfDecisionIsTakenAgain(t *testing.T) {
	s := open(t)
	kinds := s.kinds(t)
	if len(kinds) < 3 {
		t.Fatalf("the log has decisions of the kinds %v only", slices.Collect(maps.Keys(kinds)))
	}
	r := check(s)
	for range kinds {
		if got := r.Check(t.Context()); got != selfcheck.Same {
			t.Errorf("a check ends with %q\n%s", got, r.text.String())
		}
	}
	for kind := range kinds {
		if n := strings.Count(r.text.String(), `"kind":"`+kind.String()+`"`); n != 1 {
			t.Errorf("%d checks of %s", n, kind)
		}
	}
	if got := r.Check(t.Context()); got != selfcheck.None {
		t.Errorf("what was checked is checked again: %q", got)
	}
	if got := r.counted(t); got["same"] != float64(len(kinds)) || got["diverged"] != 0 || len(got) != 5 {
		t.Errorf("counted: %v", got)
	}
	if n, err := testutil.GatherAndCount(r.registry, "millwright_replay_check_duration_seconds"); err != nil || n != 1 {
		t.Error(n, err)
	}
}

// Where the log has another decision than the planner takes, it is counted, and the error in the log of the
// process names the decision and the field.
func TestADivergenceIsCountedAndNamed(t *testing.T) {
	s := open(t)
	var altered uint64
	s.change = func(rec *store.Record) {
		if ledger.Kind(rec.Kind) == ledger.KindProvisioningPlanned {
			rec.Payload = bytes.Replace(rec.Payload, []byte(`"price":`), []byte(`"price":9`), 1)
			altered = rec.Seq
		}
	}
	r := check(s)
	ended := map[selfcheck.Outcome]int{}
	for range s.kinds(t) {
		ended[r.Check(t.Context())]++
	}
	if ended[selfcheck.Diverged] != 1 || ended[selfcheck.Same] != len(s.kinds(t))-1 {
		t.Errorf("checks ended so: %v", ended)
	}
	if got := r.counted(t)["diverged"]; got != 1 {
		t.Errorf("%v divergences are counted", got)
	}
	for _, want := range []string{`"level":"error"`, fmt.Sprintf(`"decision_id":%d`, altered), `"kind":"ProvisioningPlanned"`, `"decided_by":"provisioner"`, `cheapest.price: recorded 9`} {
		if !strings.Contains(r.text.String(), want) {
			t.Errorf("the log does not say %s:\n%s", want, r.text.String())
		}
	}
}

func TestWhatCannotBeCheckedIsCountedApart(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*site)
		room   bool
		want   selfcheck.Outcome
		said   string
	}{
		"the stream was replaced":     {func(s *site) { s.lost = true }, true, selfcheck.NotReplayable, "is not at hand"},
		"the stream cannot be read":   {func(s *site) { s.err = errors.New("no servers") }, true, selfcheck.Failed, "no servers"},
		"a panic":                     {func(s *site) { s.Recording = nil }, true, selfcheck.Failed, "panic"},
		"a World would not fit":       {func(*site) {}, false, selfcheck.NoRoom, "leaves no room"},
		"a decision that is readable": {func(*site) {}, true, selfcheck.Same, "is the same"},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			tc.change(s)
			r := check(s, func(cfg *selfcheck.Config) { cfg.Room = func() bool { return tc.room } })
			if got := r.Check(t.Context()); got != tc.want || !strings.Contains(r.text.String(), tc.said) {
				t.Errorf("ends with %q\n%s", got, r.text.String())
			}
			if counts := r.counted(t); counts[string(tc.want)] != 1 || counts["diverged"] != 0 {
				t.Errorf("counted: %v", counts)
			}
		})
	}
}

// However long a check takes, checks take a fiftieth of the time; and none begins before the first interval.
func TestChecksTakeASmallShareOfTheTime(t *testing.T) {
	s := open(t)
	for took, want := range map[time.Duration]time.Duration{0: time.Minute, 10 * time.Second: 510 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s.slow, s.asked = took, nil
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
			defer cancel()
			began := time.Now()
			check(s).Run(ctx)
			if len(s.asked) < 2 || s.asked[0].Sub(began) != time.Minute {
				t.Fatalf("checks at %v, it began at %v", s.asked, began)
			}
			if got := s.asked[1].Sub(s.asked[0]); got != want {
				t.Errorf("checks that take %v come every %v, want %v", took, got, want)
			}
		})
	}
}
