package archive

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// hanging is a store that does not answer for one file until it is released, or whoever asks gives up.
type hanging struct {
	Files
	name  string
	asked chan struct{}
	once  sync.Once
	free  chan struct{}
}

func (h *hanging) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	if name == h.name {
		h.once.Do(func() { close(h.asked) })
		select {
		case <-h.free:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return h.Files.Open(ctx, name)
}

// Who waits for a segment that does not come keeps nobody from reading another, from archiving, or from
// giving up.
func TestAReaderThatWaitsForItsStoreHoldsNobodyUp(t *testing.T) {
	for _, cached := range []bool{true, false} {
		log := filled(t, 60)
		root := t.TempDir()
		files := Directory(filepath.Join(root, log.ID()))
		archiver := NewArchiver(Config{Cluster: "test", Live: log, Archive: New(files, nil, log.ID())})
		archiver.recordsMax = 10
		if _, err := archiver.Archive(ctx, 40); err != nil {
			t.Fatal(err)
		}
		slow := &hanging{Files: files, name: Segment{First: 11, Last: 20}.Name(), asked: make(chan struct{}), free: make(chan struct{})}
		var cache *Cache
		if cached {
			cache = NewCache(t.TempDir(), 1<<30)
		}
		a := New(slow, cache, log.ID())
		within, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		read := make(chan error, 1)
		go func() {
			list, err := a.Read(within, 12, 3)
			if err == nil && (len(list) != 3 || list[0].Seq != 12) {
				err = errors.New("it read others")
			}
			read <- err
		}()
		<-slow.asked
		if list, err := a.Read(within, 25, 10); err != nil || len(list) != 10 || list[9].Seq != 34 {
			t.Errorf("%d records beside it: %v", len(list), err)
		}
		if list, err := a.Read(within, 35, 2); err != nil || len(list) != 2 {
			t.Errorf("%d records further on: %v", len(list), err)
		}
		brief, end := context.WithTimeout(within, 50*time.Millisecond)
		if _, err := a.Read(brief, 14, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("who gave up got %v", err)
		}
		end()
		more := NewArchiver(Config{Cluster: "test", Live: log, Archive: a})
		more.recordsMax = 10
		if n, err := more.Archive(within, 60); err != nil || n != 20 {
			t.Errorf("%d records archived beside it: %v", n, err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		close(slow.free)
		if err := <-read; err != nil {
			t.Errorf("cached %v: what was waited for: %v", cached, err)
		}
		if a.cursor != nil {
			t.Error("what was read when the archive was closed is still open")
		}
	}
}
