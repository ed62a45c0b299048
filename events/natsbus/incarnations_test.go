package natsbus

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"millwright/events/natsbus/embedded"
)

// roomFor starts a server with room for a number of streams or buckets, each of 1 GiB.
func roomFor(t *testing.T, n int64) *embedded.Server {
	t.Helper()
	server, err := embedded.Start(t.TempDir(), embedded.Options{MaxStoreBytes: n << 30})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop(context.Background()) })
	return server
}

func openAt(t *testing.T, server *embedded.Server, minSequence func(string) uint64) *Stream {
	t.Helper()
	s, err := Open(t.Context(), Config{Server: server, Cluster: testCluster, LogID: testLogID, doubt: 50 * time.Millisecond, MinSequence: minSequence})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// numbers of the incarnations that exist.
func numbers(t *testing.T, s *Stream) (list []int) {
	t.Helper()
	names := s.js.StreamNames(t.Context())
	for name := range names.Name() {
		if n := s.cfg.number(name); n > 0 {
			list = append(list, n)
		}
	}
	if err := names.Err(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(list)
	return list
}

func TestIncarnationsThatLostMessagesMakeRoom(t *testing.T) {
	s := openAt(t, roomFor(t, 3), nil)
	for n := 1; n <= 6; n++ {
		st, err := s.State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := s.cfg.number(st.Incarnation); got != n {
			t.Fatalf("number %d is in force, want %d", got, n)
		}
		publishNext(t, s, "text")
		s.saw(n, 1000) // read before the server lost it
	}
	if got := numbers(t, s); !slices.Equal(got, []int{5, 6}) {
		t.Errorf("there are %v", got)
	}
}

// A server without a disk of its own was started anew again and again: what the Ledger knows of is not made
// again.
func TestAnIncarnationFollowsTheLastOneOnRecord(t *testing.T) {
	s := openAt(t, roomFor(t, 3), func(incarnation string) uint64 {
		for _, n := range []string{"_1", "_2", "_5"} { // nothing was decided by the two between
			if strings.HasSuffix(incarnation, n) {
				return 1000
			}
		}
		return 0
	})
	if got := numbers(t, s); s.current() != 6 || !slices.Equal(got, []int{5, 6}) {
		t.Errorf("there are %v, and number %d is in force", got, s.current())
	}
}
