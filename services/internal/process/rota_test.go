package process

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"millwright/store"
)

// What was seen while the clock was ahead does not hide for as long that nobody leads.
func TestAServiceThatNobodyLeadsIsSeenAfterTheClockWasSetBack(t *testing.T) {
	now := time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)
	o := newRota(&Parts{Elector: told{}, Units: []Unit{{Name: "unit"}}}, "me", func() time.Time { return now }, prometheus.NewRegistry())
	now = now.Add(-30 * 24 * time.Hour)
	o.lookAtLeaders(t.Context())
	if err := o.check().Probe(); err != nil {
		t.Errorf("at once: %v", err)
	}
	now = now.Add(unledMax + time.Second)
	o.lookAtLeaders(t.Context())
	if o.check().Probe() == nil || testutil.ToFloat64(o.gauge.WithLabelValues("unit")) != 0 {
		t.Error("nobody leads, and that is not seen")
	}
}

// told is an elector that says who stands first.
type told struct {
	store.Elector
	leaders []store.Leader
	err     error
}

func (e told) Leaders(context.Context) ([]store.Leader, error) { return e.leaders, e.err }

func TestAServiceThatNobodyLeadsIsSeen(t *testing.T) {
	first := func(identity string) told {
		return told{leaders: []store.Leader{{Service: "unit", Identity: identity}}}
	}
	cases := map[string]struct {
		elector told
		leading bool
		want    string
	}{
		"nobody stands for it":                        {told{}, false, "nobody stands for it"},
		"this one is first in line and does not know": {first("me"), false, "first in line and does not lead"},
		"the log does not answer":                     {told{err: errors.New("deadline exceeded")}, false, "deadline exceeded"},
		"another leads":                               {first("other"), false, ""},
		"this one leads":                              {first("me"), true, ""},
		"this one leads, and the log does not answer": {told{err: errors.New("deadline exceeded")}, true, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			o := newRota(&Parts{Elector: c.elector, Units: []Unit{{Name: "unit"}}}, "me", func() time.Time { return now }, prometheus.NewRegistry())
			if c.leading {
				o.leads("unit", true)
			}
			if master := testutil.ToFloat64(o.master.WithLabelValues("unit")); (master == 1) != c.leading {
				t.Errorf("leader_election_master_status is %v", master)
			}
			for range 2 {
				o.lookAtLeaders(t.Context())
				if err := o.check().Probe(); err != nil {
					t.Fatalf("at once: %v", err)
				}
			}
			now = now.Add(unledMax + time.Second)
			o.lookAtLeaders(t.Context())
			err := o.check().Probe()
			switch led := testutil.ToFloat64(o.gauge.WithLabelValues("unit")); {
			case (err != nil) != (c.want != "") || (led == 0) != (c.want != ""):
				t.Errorf("led %v, error %v", led, err)
			case err != nil && !strings.Contains(err.Error(), c.want):
				t.Errorf("error %q, want %q", err, c.want)
			}
			if o.leads("unit", true); o.check().Probe() != nil || testutil.ToFloat64(o.gauge.WithLabelValues("unit")) != 1 {
				t.Errorf("it leads now, and %v", o.check().Probe())
			}
			if o.leads("unit", true); testutil.ToFloat64(o.master.WithLabelValues("unit")) != 1 {
				t.Error("it leads, and its leader_election_master_status does not say so")
			}
			if o.leads("unit", false); testutil.CollectAndCount(o.master) != 1 || testutil.ToFloat64(o.master.WithLabelValues("unit")) != 0 {
				t.Error("it leads no more, and its leader_election_master_status does not say so")
			}
		})
	}
}
