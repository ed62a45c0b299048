package process

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"millwright/planner/ledger"
	"millwright/store"
	"millwright/store/memlog"
)

func TestTheLastLeaderCarriesOnUntilItLeadsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New("test")
		elector := memlog.NewElector(log)
		j := &journal{}
		unit := Unit{Name: "lifecycle",
			Lead: WhileLeading(func(ctx context.Context) error {
				j.addLine("leads")
				<-ctx.Done()
				j.addLine("leads no more")
				return nil
			}),
			RunDegraded: func(ctx context.Context) error {
				j.addLine("carries on")
				<-ctx.Done()
				j.addLine("carries on no more")
				return nil
			}}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = candidate{unit: unit, elector: elector, identity: "me", logger: zerolog.Nop(), leads: func(bool) {}}.run(ctx)
		}()
		synctest.Wait()
		want := []string{"leads"}
		if got := j.all(); !slices.Equal(got, want) {
			t.Fatalf("%v, want %v: who never led has nothing to carry on with", got, want)
		}
		elector.Expire("lifecycle")
		var other store.Leadership
		for ok := false; !ok; {
			other, ok = elector.TryCampaign(store.Candidacy{Service: "lifecycle", Identity: "other"})
			if !ok {
				synctest.Wait()
				elector.Expire("lifecycle")
			}
		}
		synctest.Wait()
		if got := j.all(); got[len(got)-1] != "carries on" {
			t.Fatalf("%v: without leadership nobody carries on", got)
		}
		_ = other.Resign(ctx)
		synctest.Wait()
		got := j.all()
		if n := len(got); !slices.Equal(got[n-2:], []string{"carries on no more", "leads"}) {
			t.Fatalf("%v: the degraded term must end before the next one", got)
		}
		cancel()
		<-ended
	})
}

func TestModes(t *testing.T) {
	for value, shadow := range map[string][]string{
		"active": nil, "shadow": {"provisioner", "disruptor", "terminator", "lifecycle"},
		"provisioner=shadow": {"provisioner"}, "active,disruptor=shadow,terminator=shadow": {"disruptor", "terminator"},
		"shadow,lifecycle=active": {"provisioner", "disruptor", "terminator"},
	} {
		s := Settings{Mode: value}
		for _, service := range moded {
			want := ledger.ModeActive
			if slices.Contains(shadow, service) {
				want = ledger.ModeShadow
			}
			if got := s.ModeOf(service); got != want {
				t.Errorf("--mode %s: %s is %s, want %s", value, service, got, want)
			}
		}
	}
	for _, value := range []string{"", "off", "provisioner=off", "watcher=shadow", "nobody=shadow", "active,", "=shadow"} {
		if _, err := parseModes(value); err == nil {
			t.Errorf("--mode %q is accepted", value)
		}
	}
}

// While the clock cannot be relied on a unit neither leads nor stands in others' way.
func TestAUnitThatIsNotFitLetsOthersLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New("test")
		elector := memlog.NewElector(log)
		var unfit atomic.Pointer[error]
		set := func(err error) {
			unfit.Store(&err)
			time.Sleep(2 * fitEvery)
			synctest.Wait()
		}
		j := &journal{}
		unit := Unit{Name: "lifecycle", Lead: WhileLeading(func(ctx context.Context) error {
			j.addLine("leads")
			<-ctx.Done()
			j.addLine("leads no more")
			return nil
		})}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		off := errors.New("the clock is off")
		unfit.Store(&off)
		go func() {
			defer close(ended)
			_ = candidate{unit: unit, elector: elector, identity: "me", logger: zerolog.Nop(), leads: func(bool) {}, fit: func() error { return *unfit.Load() }}.run(ctx)
		}()
		set(off)
		other, ok := elector.TryCampaign(store.Candidacy{Service: "lifecycle", Identity: "other"})
		if !ok || len(j.all()) != 0 {
			t.Fatalf("it leads, or stands before others: %v", j.all())
		}
		set(nil) // it waits behind the other
		set(off) // and waits no more
		_ = other.Resign(ctx)
		set(off)
		if got := j.all(); len(got) != 0 {
			t.Fatalf("it leads although it is not fit: %v", got)
		}
		set(nil)
		if got := j.all(); !slices.Equal(got, []string{"leads"}) {
			t.Fatalf("%v: it is fit and nobody leads", got)
		}
		set(off)
		if got := j.all(); !slices.Equal(got, []string{"leads", "leads no more"}) {
			t.Fatalf("%v: it is not fit", got)
		}
		if next, ok := elector.TryCampaign(store.Candidacy{Service: "lifecycle", Identity: "other"}); !ok {
			t.Fatal("nobody else can lead")
		} else {
			_ = next.Resign(ctx)
		}
		cancel()
		<-ended
	})
}

// Something that the unit waits for never comes, and it does not end when it should: others lead, and nobody
// says that this one does.
func TestAUnitThatHangsIsNotSaidToLead(t *testing.T) {
	for name, unfit := range map[string]bool{"its leadership is lost": false, "it may lead no more": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				elector := memlog.NewElector(memlog.New("test"))
				hangs, began := make(chan struct{}), make(chan store.Leadership, 1)
				unit := Unit{Name: "lifecycle", Lead: func(_ context.Context, l store.Leadership) error {
					began <- l
					<-hangs
					return nil
				}}
				var leads, off atomic.Bool
				ctx, cancel := context.WithCancel(context.Background())
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					_ = candidate{unit: unit, elector: elector, identity: "me", logger: zerolog.Nop(), leads: leads.Store, fit: func() error {
						if off.Load() {
							return errors.New("the clock is off")
						}
						return nil
					}}.run(ctx)
				}()
				lead := <-began
				synctest.Wait()
				if !leads.Load() {
					t.Error("it is not said to lead")
				}
				if unfit {
					off.Store(true)
				} else if err := lead.Resign(ctx); err != nil { // as if etcd had taken the lease away
					t.Fatal(err)
				}
				time.Sleep(stepBackMax + time.Second)
				synctest.Wait()
				if leads.Load() {
					t.Error("it hangs, and is said to lead")
				}
				if _, ok := elector.TryCampaign(store.Candidacy{Service: "lifecycle", Identity: "other"}); !ok {
					t.Error("it hangs, and nobody else can lead")
				}
				close(hangs)
				cancel()
				<-ended
			})
		})
	}
}
