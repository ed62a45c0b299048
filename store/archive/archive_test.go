package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"millwright/store"
	"millwright/store/memlog"
)

var ctx = context.Background()

// filled returns a log with n records after the genesis, some with blobs, one with an explanation that is
// lost.
func filled(t *testing.T, n int) *memlog.Log {
	t.Helper()
	log := memlog.New("test")
	for i := range n {
		d := store.Draft{Time: time.Unix(int64(4e9+i), 0), Service: "provisioner", Mode: "active", Kind: 10, Subjects: []string{fmt.Sprint("pod/", i)},
			Payload: fmt.Appendf(nil, `{"n":%d}`, i), Explanation: fmt.Appendf(nil, `{"why":%d}`, i)}
		if i%50 == 7 {
			d.Payload = []byte(fmt.Sprint(i) + strings.Repeat("p", store.MaxInlineBytes))
			d.Explanation = []byte(fmt.Sprint(i) + strings.Repeat("x", store.MaxInlineExplanationBytes))
		}
		if _, err := log.Append(ctx, d); err != nil {
			t.Fatal(err)
		}
	}
	return log
}

func all(t *testing.T, log store.Log) []store.Record {
	t.Helper()
	var out []store.Record
	for {
		page, err := log.Read(ctx, uint64(len(out))+1, 77)
		if err != nil {
			t.Fatalf("read after %d records: %v", len(out), err)
		}
		if out = append(out, page...); len(page) < 77 {
			return out
		}
	}
}

func same(t *testing.T, want, got []store.Record) {
	t.Helper()
	if len(want) != len(got) {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
	for i, w := range want {
		g := got[i]
		if w.Hash != g.Hash || !bytes.Equal(w.Payload, g.Payload) || !bytes.Equal(w.Explanation, g.Explanation) {
			t.Fatalf("record %d is %d: %.60s, %.60s", w.Seq, g.Seq, g.Payload, g.Explanation)
		}
	}
}

func archiver(log *memlog.Log, dir *Archive) *Archiver {
	return NewArchiver(Config{Cluster: "test", Live: log, Archive: dir})
}

func TestArchivedReadsAsLive(t *testing.T) {
	log := filled(t, 400)
	want := all(t, log)
	dir := Open(t.TempDir(), log.ID())
	a := archiver(log, dir)
	for _, through := range []uint64{120, 121, 300} {
		if _, err := a.Archive(ctx, through); err != nil {
			t.Fatal(err)
		}
	}
	if base, _ := log.Base(ctx); base.Seq != 300 {
		t.Fatalf("live from %d on", base.Seq+1)
	}
	joined := Join(log, dir)
	same(t, want, all(t, joined))
	for _, from := range []uint64{1, 2, 119, 120, 121, 122, 300, 301, 401} {
		got, err := joined.Read(ctx, from, 3)
		if err != nil {
			t.Fatalf("read from %d: %v", from, err)
		}
		same(t, want[from-1:min(from+2, 401)], got)
	}
	watched, cancel := context.WithCancel(ctx)
	var seen []store.Record
	_ = joined.Watch(watched, 5, func(r store.Record) error {
		if seen = append(seen, r); r.Seq == 401 {
			cancel()
		}
		return nil
	})
	same(t, want[4:], seen)
	if last, err := joined.Verify(ctx); err != nil || last != 401 {
		t.Errorf("verified to %d, %v", last, err)
	}
	if _, err := Join(log, Open(t.TempDir(), log.ID())).Read(ctx, 5, 1); !errors.Is(err, store.ErrCompacted) {
		t.Errorf("read without the archive: %v", err)
	}
}

// busy is a log that somebody archives a further part of before each of its calls.
type busy struct {
	*memlog.Log
	archive func()
}

func (b busy) Read(ctx context.Context, from uint64, limit int) ([]store.Record, error) {
	b.archive()
	return b.Log.Read(ctx, from, limit)
}

func (b busy) Verify(ctx context.Context) (uint64, error) {
	b.archive()
	return b.Log.Verify(ctx)
}

func (b busy) Base(ctx context.Context) (store.Head, error) {
	b.archive()
	return b.Log.Base(ctx)
}

// Another archives between any two calls that a reader makes: it reads on all the same.
func TestARecordIsReadWhileOthersArchive(t *testing.T) {
	for _, read := range []func(t *testing.T, j *Joined, want []store.Record){
		func(t *testing.T, j *Joined, want []store.Record) {
			got, err := j.Read(ctx, 1, 1000)
			if err != nil {
				t.Fatal(err)
			}
			same(t, want, got)
		},
		func(t *testing.T, j *Joined, want []store.Record) {
			if last, err := j.Verify(ctx); err != nil || last != uint64(len(want)) {
				t.Errorf("verified to %d, %v", last, err)
			}
		},
	} {
		log := filled(t, 400)
		want := all(t, log)
		dir := Open(t.TempDir(), log.ID())
		a, through := archiver(log, dir), uint64(0)
		j := Join(busy{log, func() {
			if through += 60; through < 400 {
				if _, err := a.Archive(ctx, through); err != nil {
					t.Fatal(err)
				}
			}
		}}, dir)
		read(t, j, want)
	}
}

func TestLostExplanationsStayLost(t *testing.T) {
	log := filled(t, 60)
	want := all(t, log)
	lossy := &lossyLog{Log: log}
	dir := Open(t.TempDir(), log.ID())
	if _, err := NewArchiver(Config{Cluster: "test", Live: lossy, Archive: dir}).Archive(ctx, 50); err != nil {
		t.Fatal(err)
	}
	want[8].Explanation = nil
	same(t, want, all(t, Join(log, dir)))
	if _, err := Join(log, dir).Verify(ctx); err != nil {
		t.Error(err)
	}
}

// lossyLog has lost the blobs of explanations.
type lossyLog struct{ *memlog.Log }

func (l *lossyLog) GetBlob(ctx context.Context, hash string) ([]byte, error) {
	data, err := l.Log.GetBlob(ctx, hash)
	if err == nil && len(data) < store.MaxInlineBytes {
		return nil, store.ErrNotFound
	}
	return data, err
}

var errCrash = errors.New("crash")

// TestCrashAtAnyLineLosesNothing breaks Archive off at its n-th line, for every n, twice, and then lets it go
// through.
func TestCrashAtAnyLineLosesNothing(t *testing.T) {
	lines := map[string]int{}
	for n := 1; ; n++ {
		log := filled(t, 100)
		want := all(t, log)
		root := t.TempDir()
		attempt := func(n int) (crashed bool) {
			dir := Open(root, log.ID())
			a := archiver(log, dir)
			a.recordsMax = 30
			a.at = func(line string) error {
				if n--; n == 0 {
					lines[line]++
					crashed = true
					return errCrash
				}
				return nil
			}
			if _, err := a.Archive(ctx, 80); err != nil && !errors.Is(err, errCrash) {
				t.Fatalf("line %d: %v", n, err)
			}
			same(t, want, all(t, Join(log, dir)))
			if _, err := Join(log, dir).Verify(ctx); err != nil {
				t.Fatalf("line %d: %v", n, err)
			}
			return crashed
		}
		broken := attempt(n)
		attempt(n/2 + 1)
		attempt(0)
		if base, _ := log.Base(ctx); base.Seq != 80 {
			t.Errorf("live from %d on", base.Seq+1)
		}
		if !broken {
			break
		}
	}
	for _, line := range []string{"a page is written", "segment is flushed, without its name", "segment has its name", "segment is verified",
		"segment is on record", "records are deleted"} {
		if lines[line] == 0 {
			t.Errorf("never broken off where %s", line)
		}
	}
}

func TestPartsOfACrashAreClearedAway(t *testing.T) {
	log := filled(t, 30)
	dir := Open(t.TempDir(), log.ID())
	a := archiver(log, dir)
	a.at = func(line string) error {
		if line == "segment is flushed, without its name" {
			return errCrash
		}
		return nil
	}
	if _, err := a.Archive(ctx, 20); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir.Location(), "*"+partSuffix)); len(left) != 1 {
		t.Fatalf("parts: %v", left)
	}
	if n, err := archiver(log, dir).Archive(ctx, 20); err != nil || n != 20 {
		t.Fatalf("archived %d, %v", n, err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir.Location(), "*"+partSuffix)); len(left) != 0 {
		t.Errorf("parts: %v", left)
	}
}

func TestAnotherDirectoryIsRefused(t *testing.T) {
	log := filled(t, 30)
	if _, err := archiver(log, Open(t.TempDir(), log.ID())).Archive(ctx, 10); err != nil {
		t.Fatal(err)
	}
	if _, err := archiver(log, Open(t.TempDir(), log.ID())).Archive(ctx, 20); !errors.Is(err, ErrIncomplete) {
		t.Fatalf("archived into a directory without the records before: %v", err)
	}
	if base, _ := log.Base(ctx); base.Seq != 10 {
		t.Errorf("live from %d on", base.Seq+1)
	}
}

func TestOneArchiverAtATime(t *testing.T) {
	log := filled(t, 30)
	dir := Open(t.TempDir(), log.ID())
	a := archiver(log, dir)
	a.at = func(string) error {
		_, err := archiver(log, dir).Archive(ctx, 20)
		if err == nil {
			t.Error("two at a time")
		}
		return nil
	}
	if _, err := a.Archive(ctx, 20); err != nil {
		t.Fatal(err)
	}
}

func TestFaultsOfSegmentsAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		harm func(t *testing.T, dir *Archive, s []Segment)
		want string
	}{
		"a changed byte": {func(t *testing.T, _ *Archive, s []Segment) {
			data := must(os.ReadFile(s[1].Path))
			data[len(data)/2] ^= 1
			write(t, s[1].Path, data)
		}, "00000000000000000021-"},
		"a cut file": {func(t *testing.T, _ *Archive, s []Segment) {
			data := must(os.ReadFile(s[1].Path))
			write(t, s[1].Path, data[:len(data)-9])
		}, "00000000000000000021-"},
		"a file that is gone": {func(t *testing.T, _ *Archive, s []Segment) { _ = os.Remove(s[1].Path) }, "does not go on with record 21"},
		"the last file gone":  {func(t *testing.T, _ *Archive, s []Segment) { _ = os.Remove(s[2].Path) }, "record 60: is neither"},
		"a file of another log": {func(t *testing.T, dir *Archive, s []Segment) {
			other := filled(t, 30)
			o := Open(t.TempDir(), other.ID())
			must(archiver(other, o).Archive(ctx, 20))
			write(t, s[0].Path, must(os.ReadFile(must(o.Segments(ctx))[0].Path)))
		}, "it holds log"},
		"no segment at all": {func(t *testing.T, _ *Archive, s []Segment) { write(t, s[0].Path, []byte("hello, world, this is none")) }, "does not begin"},
	} {
		t.Run(name, func(t *testing.T) {
			log := filled(t, 100)
			dir := Open(t.TempDir(), log.ID())
			for _, through := range []uint64{20, 40, 60} {
				must(archiver(log, dir).Archive(ctx, through))
			}
			c.harm(t, dir, must(dir.Segments(ctx)))
			_, err := Join(log, Open(filepath.Dir(dir.Location()), log.ID())).Verify(ctx)
			if !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func FuzzSegment(f *testing.F) {
	log := memlog.New("test")
	for i := range 5 {
		must(log.Append(ctx, store.Draft{Kind: 10, Payload: fmt.Appendf(nil, `{"n":%d}`, i)}))
	}
	dir := Open(f.TempDir(), log.ID())
	must(archiver(log, dir).Archive(ctx, 4))
	segment := must(dir.Segments(ctx))[0]
	f.Add(must(os.ReadFile(segment.Path)))
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, data []byte) {
		kept := t.TempDir()
		write(t, filepath.Join(kept, segment.Name()), data)
		if _, err := New(Directory(kept), nil, log.ID()).verify(ctx, segment, Summary{}); err != nil && !errors.Is(err, store.ErrCorrupt) {
			t.Fatal(err)
		}
	})
}
