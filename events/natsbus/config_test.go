package natsbus

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"millwright/events"
)

func info(t *testing.T, s *Stream) *jetstream.StreamInfo {
	t.Helper()
	stream, err := s.js.Stream(t.Context(), s.cfg.streamName(s.current()))
	if err != nil {
		t.Fatal(err)
	}
	return stream.CachedInfo()
}

func send(t *testing.T, s *Stream, n int) {
	t.Helper()
	for range n {
		if err := s.Publish(t.Context(), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestTheStreamIsOnDiskCompressedAndBounded(t *testing.T) {
	s := startServer(t).open(t, nil)
	c := info(t, s).Config
	if c.Name != "MILLWRIGHT_prod-eu-1_01234567_1" {
		t.Errorf("name %q", c.Name)
	}
	if c.Storage != jetstream.FileStorage || c.Compression != jetstream.S2Compression || c.Discard != jetstream.DiscardOld || c.Retention != jetstream.LimitsPolicy {
		t.Errorf("storage %v, compression %v, discard %v, retention %v", c.Storage, c.Compression, c.Discard, c.Retention)
	}
	if c.MaxAge != 72*time.Hour || c.MaxBytes != 1<<30 || c.Replicas != 1 || len(c.Subjects) != 1 {
		t.Errorf("age %s, bytes %d, subjects %v", c.MaxAge, c.MaxBytes, c.Subjects)
	}
}

func TestOnlyExplicitBoundsChangeAStreamThatExists(t *testing.T) {
	server := startServer(t)
	explicit := func(c *Config) { c.MaxAge, c.MaxBytes = time.Hour, 1<<20 }
	server.open(t, nil)
	for _, s := range []*Stream{server.open(t, explicit), server.open(t, nil)} {
		if c := info(t, s).Config; c.MaxAge != time.Hour || c.MaxBytes != 1<<20 {
			t.Errorf("age %s, bytes %d", c.MaxAge, c.MaxBytes)
		}
	}
}

func TestBytesAreBounded(t *testing.T) {
	s := startServer(t).open(t, func(c *Config) { c.MaxBytes = 1 << 20 })
	for i := range 64 {
		if err := s.Publish(t.Context(), []byte(strings.Repeat(string(rune('a'+i%26)), 64<<10))); err != nil {
			t.Fatal(err)
		}
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	state, err := s.State(t.Context())
	if err != nil || state.Last != 64 || state.First < 40 {
		t.Fatalf("state %+v, %v", state, err)
	}
	if err := s.Consume(t.Context(), 1, func(events.Message) error { return nil }); !errors.Is(err, events.ErrCompacted) {
		t.Fatalf("got %v", err)
	}
}

func TestAMessageTheServerDoesNotTakeIsTooLarge(t *testing.T) {
	s := startServer(t).open(t, nil)
	if err := s.Publish(t.Context(), make([]byte, 9<<20)); !errors.Is(err, events.ErrTooLarge) {
		t.Fatalf("got %v, want ErrTooLarge", err)
	}
	send(t, s, 1) // it does no harm to the next
}

func TestPendingBytesAreBounded(t *testing.T) {
	s := startServer(t).open(t, func(c *Config) { c.PendingBytesMax = 1 << 20 })
	var err error
	for i := 0; err == nil && i < 10_000; i++ {
		err = s.Publish(t.Context(), make([]byte, 512<<10))
	}
	if !errors.Is(err, events.ErrFull) {
		t.Fatalf("got %v, want ErrFull", err)
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := s.pub.pendingBytes.Load(); left != 0 || s.Pending() != 0 {
		t.Fatalf("%d bytes in %d messages are pending after a flush", left, s.Pending())
	}
}

func TestALedgerThatKnowsMoreThanTheStreamMakesANewIncarnation(t *testing.T) {
	server := startServer(t)
	send(t, server.open(t, nil), 5)
	cases := []struct {
		min  uint64
		want string
	}{{0, "_1"}, {5, "_1"}, {6, "_2"}, {0, "_2"}}
	for _, c := range cases {
		s := server.open(t, func(cfg *Config) {
			cfg.MinSequence = func(incarnation string) uint64 {
				if strings.HasSuffix(incarnation, "_1") {
					return c.min
				}
				return 0
			}
		})
		if state, err := s.State(t.Context()); err != nil || !strings.HasSuffix(state.Incarnation, c.want) {
			t.Errorf("folded up to %d: %+v, %v; want %s", c.min, state, err, c.want)
		}
	}
}

func TestRenewingKeepsOneIncarnationBefore(t *testing.T) {
	s := startServer(t).open(t, nil)
	for range 3 {
		send(t, s, 1)
		if _, err := s.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	for name := range s.js.StreamNames(t.Context()).Name() {
		if s.cfg.number(name) > 0 {
			names = append(names, name)
		}
	}
	if len(names) != 2 || s.current() != 4 {
		t.Fatalf("streams %v, in force is %d", names, s.current())
	}
}

func TestStreamsOfOtherClustersAreLeftAlone(t *testing.T) {
	server := startServer(t)
	a := server.open(t, nil)
	send(t, a, 3)
	others := []func(*Config){
		func(c *Config) { c.Cluster = "another" },
		func(c *Config) { c.LogID = "ffffffff" + c.LogID[8:] },
	}
	for _, change := range others {
		b := server.open(t, change)
		if state, err := b.State(t.Context()); err != nil || state.Last != 0 {
			t.Fatalf("%+v, %v", state, err)
		}
		if _, err := b.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if state, err := a.State(t.Context()); err != nil || state.Last != 3 || a.current() != 1 {
		t.Fatalf("%+v, %v", state, err)
	}
}

// deletable makes the first incarnation as a stream from which messages can be deleted.
func (s *server) deletable(t *testing.T) jetstream.Stream {
	t.Helper()
	cfg := Config{Server: s, Cluster: testCluster, LogID: testLogID}.withDefaults()
	conn, err := connect(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	sc := cfg.streamConfig(1)
	sc.DenyDelete = false
	stream, err := js.CreateStream(t.Context(), sc)
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

func TestAHoleInTheMiddleIsPassedOver(t *testing.T) {
	server := startServer(t)
	stream := server.deletable(t)
	s := server.open(t, nil)
	send(t, s, 10)
	for _, lost := range []uint64{4, 5} {
		if err := stream.DeleteMsg(t.Context(), lost); err != nil {
			t.Fatal(err)
		}
	}
	var got []uint64
	enough := errors.New("enough")
	err := s.Consume(t.Context(), 2, func(m events.Message) error {
		if got = append(got, m.Sequence); m.Sequence == 10 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || !slices.Equal(got, []uint64{2, 3, 6, 7, 8, 9, 10}) {
		t.Fatalf("got %v, %v", got, err)
	}
}

func TestNumberOfAnIncarnation(t *testing.T) {
	c := Config{Cluster: "c", LogID: "0123456789"}
	cases := map[string]int{
		"MILLWRIGHT_c_01234567_1": 1, "MILLWRIGHT_c_01234567_12": 12, "MILLWRIGHT_c_01234567_0": 0, "MILLWRIGHT_c_01234567_01": 0,
		"MILLWRIGHT_c_01234567_-1": 0, "MILLWRIGHT_c_01234567_": 0, "MILLWRIGHT_c_01234567_1_2": 0, "MILLWRIGHT_d_01234567_1": 0, "": 0,
	}
	for name, want := range cases {
		if got := c.number(name); got != want {
			t.Errorf("%q is %d, want %d", name, got, want)
		}
	}
}

func TestOpenSaysWhatIsMissing(t *testing.T) {
	for _, c := range []Config{{}, {Cluster: "c", LogID: testLogID}, {URL: "nats://127.0.0.1:1", LogID: testLogID}, {URL: "nats://127.0.0.1:1", Cluster: "c", LogID: "short"}} {
		if _, err := Open(t.Context(), c); err == nil {
			t.Errorf("opened %+v", c)
		}
	}
}
