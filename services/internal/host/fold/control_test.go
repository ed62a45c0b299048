package fold

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"millwright/store"
	"millwright/store/memlog"
)

// switchLog calls read before each read of the switch, and fails with what it returns.
type switchLog struct {
	store.Log
	read func() error
}

func (l switchLog) Switch(ctx context.Context, name string) (string, store.Head, error) {
	if err := l.read(); err != nil {
		return "", store.Head{}, err
	}
	return l.Log.Switch(ctx, name)
}

// A clock that is put right by a month, during a read of the switch or between two, neither ends the reads
// nor makes an answer count for a month.
func TestTheSwitchIsReadWhileTheClockIsSetBack(t *testing.T) {
	for name, during := range map[string]bool{"during a read": true, "between reads": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log, err := memlog.Open(memlog.Config{Cluster: "c"})
				if err != nil {
					t.Fatal(err)
				}
				var ahead, reads atomic.Int64
				var gone atomic.Bool
				ahead.Store(int64(30 * 24 * time.Hour))
				s := NewState(StateConfig{Logger: zerolog.Nop(), Registerer: prometheus.NewRegistry(),
					Clock: func() time.Time { return time.Now().Round(0).Add(time.Duration(ahead.Load())) },
					Log: switchLog{log, func() error {
						time.Sleep(3 * time.Millisecond)
						if reads.Add(1) == 4 && during {
							ahead.Store(0)
						}
						if gone.Load() {
							return errors.New("the log is away")
						}
						return nil
					}}})
				ctx, cancel := context.WithCancel(t.Context())
				go func() { _ = s.watchControl(ctx) }()
				time.Sleep(time.Minute)
				if n := reads.Load(); n < 100 || s.LogAway() {
					t.Errorf("%d reads in a minute, away: %v", n, s.LogAway())
				}
				gone.Store(true)
				time.Sleep(time.Millisecond)
				ahead.Store(0)
				if !during && !s.LogAway() {
					t.Error("an answer of the future is believed")
				}
				time.Sleep(10 * time.Second)
				if since := s.LogUnreachable(); !s.LogAway() || since.IsZero() || time.Since(since) > 12*time.Second {
					t.Errorf("the log has been away for 10 s: away %v, unreachable since %v", s.LogAway(), since)
				}
				gone.Store(false)
				time.Sleep(time.Second)
				if s.LogAway() || !s.LogUnreachable().IsZero() {
					t.Error("the log answers again")
				}
				cancel()
				synctest.Wait()
				time.Sleep(time.Second)
			})
		})
	}
}
