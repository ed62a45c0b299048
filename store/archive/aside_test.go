package archive

import (
	"context"
	"errors"
	"testing"

	"millwright/store/memlog"
)

// breaking is a store whose n-th change fails, before or after it has happened; what follows fails too.
type breaking struct {
	Files
	changes, n int
	after      bool
}

func (b *breaking) change(do func() error) error {
	b.changes++
	if b.changes > b.n || b.changes == b.n && !b.after {
		return errCrash
	}
	if err := do(); err != nil || b.changes < b.n {
		return err
	}
	return errCrash
}

func (b *breaking) Publish(ctx context.Context, path, name string) error {
	return b.change(func() error { return b.Files.Publish(ctx, path, name) })
}

func (b *breaking) Swap(ctx context.Context, name string, old, data []byte) error {
	return b.change(func() error { return b.Files.Swap(ctx, name, old, data) })
}

func (b *breaking) Remove(ctx context.Context, name string) error {
	return b.change(func() error { return b.Files.Remove(ctx, name) })
}

func (b *breaking) Move(ctx context.Context, name, folder string) error {
	return b.change(func() error { return b.Files.Move(ctx, name, folder) })
}

// forked returns a log restored from a backup after its archive had gone on, and that archive: both agree up
// to record 110, in the middle of a segment.
func forked(t *testing.T) (restored *memlog.Log, files Files) {
	t.Helper()
	log := filled(t, 250)
	files = Directory(t.TempDir())
	dir := New(files, nil, log.ID())
	a := archiver(log, dir)
	a.recordsMax = 60
	must(a.Archive(ctx, 100))
	restored = log.Copy()
	grow(t, log, "lost", 60)
	must(a.Archive(ctx, 280))
	if err := restored.Compact(ctx, must(dir.head(ctx, 110))); err != nil {
		t.Fatal(err)
	}
	grow(t, restored, "since", 60)
	return restored, files
}

// Whoever sets a fork aside may be killed at any point: log and archive stay readable, and the next attempt
// ends what was begun.
func TestAForkIsSetAsideAfterACrashAtAnyPoint(t *testing.T) {
	for _, after := range []bool{false, true} {
		for n, crashed := 1, true; crashed; n++ {
			log, files := forked(t)
			want := all(t, Join(log.Copy(), New(files, nil, log.ID())))
			_, err := New(&breaking{Files: files, n: n, after: after}, nil, log.ID()).SetAside(ctx, "test", log)
			if crashed = errors.Is(err, errCrash); !crashed && (err != nil || n < 5) {
				t.Fatalf("%d changes: %v", n-1, err)
			}
			dir := New(files, nil, log.ID())
			same(t, want, all(t, Join(log.Copy(), dir)))
			if _, err := dir.SetAside(ctx, "test", log); err != nil {
				t.Fatalf("again, after a crash at change %d (after it: %t): %v", n, after, err)
			}
			if _, err := archiver(log, dir).Archive(ctx, 270); err != nil {
				t.Fatalf("archive, after a crash at change %d (after it: %t): %v", n, after, err)
			}
			same(t, want, all(t, Join(log, dir)))
			if _, err := Join(log, dir).Verify(ctx); err != nil {
				t.Errorf("after a crash at change %d (after it: %t): %v", n, after, err)
			}
		}
	}
}
