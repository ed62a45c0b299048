package archive

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// shared is a directory that nothing keeps other writers out of, like a bucket.
type shared struct{ Directory }

func (s shared) Lock(ctx context.Context) (func(), bool, error) {
	unlock, _, err := s.Directory.Lock(ctx)
	if err == nil {
		unlock() // only the directory is made
	}
	return func() {}, false, err
}

// A second writer, which fills segments with more or fewer records, archives between any two steps of the
// first: they write one chain.
func TestWritersWithoutALockWriteOneChain(t *testing.T) {
	for _, other := range []struct {
		recordsMax int
		through    uint64
	}{{30, 80}, {7, 80}, {100, 80}, {30, 25}, {100, 95}} {
		for n := 1; ; n++ {
			log := filled(t, 100)
			want := all(t, log)
			a := New(shared{Directory(t.TempDir())}, nil, log.ID())
			first := archiver(log, a)
			first.recordsMax = 30
			step, interrupted := 0, false
			first.at = func(string) error {
				if step++; step == n {
					interrupted = true
					second := archiver(log, a)
					second.recordsMax = other.recordsMax
					must(second.Archive(ctx, other.through))
				}
				return nil
			}
			_, err := first.Archive(ctx, 80)
			same(t, want, all(t, Join(log, a)))
			if _, err := archiver(log, a).Archive(ctx, 80); err != nil {
				t.Fatalf("step %d beside %+v: %v", n, other, err)
			}
			if _, err := Join(log, a).Verify(ctx); err != nil {
				t.Fatalf("step %d beside %+v: %v", n, other, err)
			}
			if !interrupted {
				if err != nil {
					t.Error(err)
				}
				break
			}
		}
	}
}

// A log that was restored lacks records that a writer has claimed, and not yet written.
func TestAClaimBeyondTheLogIsAFork(t *testing.T) {
	log := filled(t, 100)
	restored := log.Copy()
	grow(t, log, "lost", 50)
	a := New(shared{Directory(t.TempDir())}, nil, log.ID())
	cut := archiver(log, a)
	cut.at = func(line string) error {
		if line == "segment is claimed" {
			return errCrash
		}
		return nil
	}
	if _, err := cut.Archive(ctx, 120); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	if _, err := archiver(restored, a).Archive(ctx, 90); !errors.Is(err, ErrForked) {
		t.Fatalf("archived: %v", err)
	}
	if aside := must(a.SetAside(ctx, "test", restored)); !exists(filepath.Join(aside, claimName(1))) {
		t.Errorf("the claim is not in %s", aside)
	}
	want := all(t, restored)
	if _, err := archiver(restored, a).Archive(ctx, 90); err != nil {
		t.Fatal(err)
	}
	same(t, want, all(t, Join(restored, a)))
}

// cached is an archive whose segments are read through a cache.
func cached(t *testing.T, files Directory, dir string, bytesMax int64, logID string) *Archive {
	t.Helper()
	return New(versioned{files}, NewCache(dir, bytesMax), logID)
}

// versioned lists its files with versions, like a bucket.
type versioned struct{ Directory }

func (v versioned) List(ctx context.Context) ([]File, error) {
	list, err := v.Directory.List(ctx)
	for i, f := range list {
		data, err := os.ReadFile(v.path(f.Name))
		if err != nil {
			return nil, err
		}
		list[i].Version = fmt.Sprintf(`"%x"`, sha256.Sum256(data))
	}
	return list, err
}

func TestCopiesAreBoundedAndNeverInTheWay(t *testing.T) {
	log := filled(t, 300)
	want := all(t, log)
	files := Directory(t.TempDir())
	for through := uint64(20); through <= 280; through += 20 {
		must(archiver(log, New(files, nil, log.ID())).Archive(ctx, through))
	}
	dir := t.TempDir()
	const bytesMax = 20_000
	a := cached(t, files, dir, bytesMax, log.ID())
	same(t, want, all(t, Join(log, a)))
	total, largest := int64(0), int64(0)
	for _, s := range must(a.Segments(ctx)) {
		largest = max(largest, s.Bytes)
	}
	copies := must(filepath.Glob(filepath.Join(dir, "*")))
	for _, path := range copies {
		total += must(os.Stat(path)).Size()
	}
	if total > max(bytesMax, largest) || len(copies) < 2 {
		t.Errorf("%d copies of %d bytes", len(copies), total)
	}
	for _, path := range copies { // as a crash of the machine could leave them
		data := must(os.ReadFile(path))
		data[len(data)/2] ^= 1
		write(t, path, data)
	}
	again := Join(log, cached(t, files, dir, bytesMax, log.ID()))
	for from := uint64(1); from <= 280; from++ {
		page, err := again.Read(ctx, from, 1)
		if err != nil {
			page, err = again.Read(ctx, from, 1) // the copy is gone
		}
		if err != nil || page[0].Hash != want[from-1].Hash {
			t.Fatalf("record %d: %v", from, err)
		}
	}
	blocked := filepath.Join(t.TempDir(), "file")
	write(t, blocked, nil)
	same(t, want, all(t, Join(log, cached(t, files, filepath.Join(blocked, "dir"), bytesMax, log.ID()))))
}

// A segment took the place of another of its name, by another process: what was read of the old one does not
// come back.
func TestCopiesOfWhatWasSetAsideAreNotRead(t *testing.T) {
	log := filled(t, 100)
	files, dir := Directory(t.TempDir()), t.TempDir()
	elsewhere := New(files, nil, log.ID())
	must(archiver(log, elsewhere).Archive(ctx, 40))
	restored := log.Copy()
	grow(t, log, "lost", 20)
	must(archiver(log, elsewhere).Archive(ctx, 110))
	reader := cached(t, files, dir, 1<<20, log.ID())
	if page, err := reader.Read(ctx, 105, 1); err != nil || !strings.Contains(string(page[0].Payload), "lost") {
		t.Fatalf("%v, %v", page, err)
	}
	grow(t, restored, "since", 20)
	want := all(t, Join(restored, elsewhere))
	must(elsewhere.SetAside(ctx, "test", restored))
	must(archiver(restored, elsewhere).Archive(ctx, 110))
	same(t, want, all(t, Join(restored, reader)))
}
