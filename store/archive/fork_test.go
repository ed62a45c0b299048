package archive

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"millwright/store"
	"millwright/store/memlog"
)

// grow appends n records, which say whose they are.
func grow(t *testing.T, log *memlog.Log, whose string, n int) {
	t.Helper()
	for i := range n {
		if _, err := log.Append(ctx, store.Draft{Time: time.Unix(int64(5e9+i), 0), Kind: 10, Payload: fmt.Appendf(nil, `{"%s":%d}`, whose, i)}); err != nil {
			t.Fatal(err)
		}
	}
}

// A backup of the log is restored whose archive went on after it was made. What was acknowledged since then
// must never be deleted.
func TestALogThatWasRestoredLosesNothingToItsArchive(t *testing.T) {
	for name, c := range map[string]struct {
		// backup is the record up to which the log is archived when the backup is made, archived the one up
		// to which the archive goes.
		backup, archived uint64
		// since are the records appended to the restored log, which had 251.
		since int
		// through is how far the archive is to go then.
		through uint64
	}{
		"it goes on beyond the archive":                 {100, 280, 60, 270},
		"it goes on beyond the archive, and all of it":  {100, 280, 60, 300},
		"it ends before the archive does":               {100, 280, 0, 240},
		"it ends before, and was archived no further":   {100, 280, 5, 100},
		"nothing had been archived":                     {0, 280, 60, 270},
		"its last segment was half taken from the log":  {110, 280, 60, 270},
		"it was restored from before what is not there": {100, 252, 60, 240},
	} {
		t.Run(name, func(t *testing.T) {
			log := filled(t, 250)
			dir := Open(t.TempDir(), log.ID())
			a := archiver(log, dir)
			a.recordsMax = 60
			if c.backup > 0 {
				must(a.Archive(ctx, min(c.backup, 100)))
			}
			backup := log.Copy()
			grow(t, log, "lost", 60)
			must(a.Archive(ctx, c.archived))
			if c.backup > 100 {
				if err := backup.Compact(ctx, must(dir.head(ctx, c.backup))); err != nil {
					t.Fatal(err)
				}
			}
			restored := backup.Copy()
			grow(t, restored, "since", c.since)
			want := all(t, Join(restored.Copy(), dir))
			segments := must(dir.Segments(ctx))

			_, err := archiver(restored, dir).Archive(ctx, c.through)
			if !errors.Is(err, ErrForked) {
				t.Errorf("archived a fork: %v", err)
			}
			if base := must(restored.Base(ctx)); base.Seq != c.backup {
				t.Errorf("live from %d on", base.Seq+1)
			}
			if err := Join(restored, dir).VerifyBoundary(ctx); !errors.Is(err, ErrForked) {
				t.Errorf("the fork is not seen: %v", err)
			}
			same(t, want, all(t, Join(restored, dir)))

			aside := must(dir.SetAside(ctx, "test", restored))
			if _, err := archiver(restored, dir).Archive(ctx, c.through); err != nil {
				t.Fatalf("archive after the fork was set aside: %v", err)
			}
			same(t, want, all(t, Join(restored, dir)))
			if _, err := Join(restored, dir).Verify(ctx); err != nil {
				t.Error(err)
			}
			for _, s := range segments {
				if _, err := os.Stat(filepath.Join(aside, s.Name())); err != nil && s.Last > c.backup {
					t.Errorf("a segment of the fork is gone: %v", err)
				}
			}
			if again := must(dir.SetAside(ctx, "test", restored)); again != "" {
				t.Errorf("there is no fork, and %s", again)
			}
		})
	}
}

// lastMove fails to move the file that says what was pruned, once.
type lastMove struct {
	Files
	failed bool
}

func (l *lastMove) Move(ctx context.Context, name, folder string) error {
	if name == prunedName && !l.failed {
		l.failed = true
		return errCrash
	}
	return l.Files.Move(ctx, name, folder)
}

// The archive was pruned, and a backup is restored from before anything was archived. What the archive was
// pruned of is live again, or was lost with the rest of the fork.
func TestAPrunedArchiveIsSetAside(t *testing.T) {
	log := filled(t, 50)
	backup := log.Copy()
	files := &lastMove{Files: Directory(t.TempDir())}
	dir := New(files, nil, log.ID())
	grow(t, log, "lost", 200)
	for _, through := range []uint64{100, 150, 200} {
		must(archiver(log, dir).Archive(ctx, through))
	}
	if deleted := must(dir.Prune(ctx, must(log.Base(ctx)), time.Unix(1e11, 0))); len(deleted) != 2 {
		t.Fatalf("deleted %v", deleted)
	}
	grow(t, backup, "since", 300)
	want := all(t, backup)
	if _, err := archiver(backup, dir).Archive(ctx, 250); !errors.Is(err, ErrForked) {
		t.Fatalf("archived a fork: %v", err)
	}

	if _, err := dir.SetAside(ctx, "test", backup); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	if _, err := archiver(backup, dir).Archive(ctx, 250); !errors.Is(err, ErrForked) {
		t.Errorf("archived after half a fork was set aside: %v", err)
	}
	must(dir.SetAside(ctx, "test", backup))
	must(archiver(backup, dir).Archive(ctx, 250))
	if base := must(backup.Base(ctx)); base.Seq != 250 {
		t.Errorf("live from %d on", base.Seq+1)
	}
	same(t, want, all(t, Join(backup, dir)))
	if again := must(dir.SetAside(ctx, "test", backup)); again != "" {
		t.Errorf("there is no fork, and %s", again)
	}
}

// A backup from when less was archived than was pruned later: nobody has the records between, and there is
// nothing to go on with.
func TestALogThatGoesOnFromPrunedRecordsIsIncomplete(t *testing.T) {
	log := filled(t, 250)
	dir := Open(t.TempDir(), log.ID())
	must(archiver(log, dir).Archive(ctx, 50))
	backup := log.Copy()
	for _, through := range []uint64{100, 150} {
		must(archiver(log, dir).Archive(ctx, through))
	}
	must(dir.Prune(ctx, must(log.Base(ctx)), time.Unix(1e11, 0)))
	if _, err := archiver(backup, dir).Archive(ctx, 200); !errors.Is(err, ErrIncomplete) || errors.Is(err, ErrForked) {
		t.Errorf("archived: %v", err)
	}
	if _, err := dir.SetAside(ctx, "test", backup); !errors.Is(err, ErrIncomplete) {
		t.Errorf("set aside: %v", err)
	}
}

// A crash left records in both: that is no fork.
func TestWhatIsInBothIsNoFork(t *testing.T) {
	log := filled(t, 100)
	dir := Open(t.TempDir(), log.ID())
	a := archiver(log, dir)
	a.at = func(line string) error {
		if line == "segment is on record" {
			return errCrash
		}
		return nil
	}
	if _, err := a.Archive(ctx, 50); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	if aside := must(dir.SetAside(ctx, "test", log)); aside != "" {
		t.Errorf("set aside in %s", aside)
	}
	if err := Join(log, dir).VerifyBoundary(ctx); err != nil {
		t.Error(err)
	}
}

func TestAPrunedArchiveReadsOn(t *testing.T) {
	log := filled(t, 250)
	want := all(t, log)
	dir := Open(t.TempDir(), log.ID())
	for _, through := range []uint64{50, 100, 150, 200} {
		must(archiver(log, dir).Archive(ctx, through))
	}
	segments := must(dir.Segments(ctx))
	base := must(log.Base(ctx))
	if deleted := must(dir.Prune(ctx, base, want[0].Time)); len(deleted) != 0 {
		t.Fatalf("what is young enough is deleted: %v", deleted)
	}
	stale := must(os.ReadFile(segments[0].Path))
	if deleted := must(dir.Prune(ctx, base, want[120].Time)); len(deleted) != 2 {
		t.Fatalf("deleted %v", deleted)
	}
	write(t, segments[0].Path, stale) // as if the process had died before it was deleted
	dir = Open(filepath.Dir(dir.Location()), log.ID())
	if _, err := Join(log, dir).Read(ctx, 60, 1); !errors.Is(err, store.ErrCompacted) {
		t.Errorf("read what was pruned: %v", err)
	}
	got, err := Join(log, dir).Read(ctx, 101, 1000)
	if err != nil {
		t.Fatal(err)
	}
	same(t, want[100:], got)
	if last, err := Join(log, dir).Verify(ctx); err != nil || last != 251 {
		t.Errorf("verified to %d, %v", last, err)
	}
	must(archiver(log, dir).Archive(ctx, 220))
	if deleted := must(dir.Prune(ctx, must(log.Base(ctx)), time.Unix(1e11, 0))); len(deleted) != 2 {
		t.Fatalf("deleted %v", deleted)
	}
	if left := must(dir.Segments(ctx)); len(left) != 1 || left[0].Last != 220 {
		t.Errorf("left %v", left)
	}
	if _, err := os.Stat(segments[0].Path); err == nil {
		t.Error("what a crash had left is there still")
	}
	if _, err := Join(log, dir).Verify(ctx); err != nil {
		t.Error(err)
	}
}
