package archive

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Cache keeps copies of segments in a local directory, which several processes may share. It holds no more
// than its bytes and downloadsMax segments; what was used least lately goes first. A full disk makes
// reading slower, and does not end it. A nil Cache holds nothing.
type Cache struct {
	dir string
	max int64
	mu  sync.Mutex
	// downloads are under way, by path of the copy; each is closed when it has ended.
	downloads map[string]chan struct{}
	// turns bounds them.
	turns chan struct{}
}

// downloadsMax bounds the downloads at a time.
const downloadsMax = 4

// abandonedAge is how old a half-written file is that no living process writes.
const abandonedAge = 24 * time.Hour

// NewCache returns a cache in a directory, which is made when it is needed, of at most so many bytes.
func NewCache(dir string, bytesMax int64) *Cache {
	return &Cache{dir: dir, max: bytesMax, downloads: map[string]chan struct{}{}, turns: make(chan struct{}, downloadsMax)}
}

// Scratch makes the directory, for files that are being written, and removes what crashes have left there.
// One that another user owns is refused.
func (c *Cache) Scratch() (string, error) {
	err := os.MkdirAll(c.dir, 0o700)
	if err == nil {
		err = os.Chmod(c.dir, 0o700) // which only its owner may
	}
	if err != nil {
		return "", fmt.Errorf("make directory for segments: %w", err)
	}
	left, err := filepath.Glob(filepath.Join(c.dir, "*"+partSuffix))
	for _, path := range left {
		if info, err := os.Stat(path); err == nil && time.Since(info.ModTime()) > abandonedAge {
			_ = os.Remove(path)
		}
	}
	return c.dir, err
}

// path of a copy: a file that took the place of another of the same name has a copy of its own.
func (c *Cache) path(logID string, s Segment) string {
	version := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' {
			return r
		}
		return -1
	}, s.version)
	return filepath.Join(c.dir, logID+"-"+s.Name()+"-"+version)
}

// open opens a segment, and keeps a copy of it if there is room.
func (c *Cache) open(ctx context.Context, files Files, logID string, s Segment) (io.ReadCloser, error) {
	path := c.path(logID, s)
	dir, err := c.Scratch()
	if err == nil {
		f, ended, begun := c.begin(ctx, path, s.Bytes)
		if begun != nil {
			return nil, fmt.Errorf("wait for the download of %s: %w", s.Path, begun)
		}
		if f != nil {
			return f, nil
		}
		defer ended()
		err = c.trim(s.Bytes)
	}
	if err == nil {
		f, full, err := keep(ctx, files, s, dir, path)
		if !full {
			return f, err
		}
	}
	var held bytes.Buffer
	if err := download(ctx, files, s, &held); err != nil {
		return nil, err
	}
	return io.NopCloser(&held), nil
}

// begin returns a copy, or says that the caller is to make it, and then to call ended. One that another one
// is making is waited for; nobody else waits.
func (c *Cache) begin(ctx context.Context, path string, size int64) (f io.ReadCloser, ended func(), err error) {
	for {
		c.mu.Lock()
		if f, found := copied(path, size); found {
			c.mu.Unlock()
			return f, nil, nil
		}
		others := c.downloads[path]
		mine := make(chan struct{})
		if others == nil {
			c.downloads[path] = mine
		}
		c.mu.Unlock()
		end := func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			delete(c.downloads, path)
			close(mine)
		}
		if others == nil {
			select {
			case c.turns <- struct{}{}:
				return nil, func() { <-c.turns; end() }, nil
			case <-ctx.Done():
				end()
				return nil, nil, ctx.Err()
			}
		}
		select {
		case <-others:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

// copied opens a copy that is there, and notes that it is used.
func copied(path string, size int64) (io.ReadCloser, bool) {
	f, err := os.Open(path)
	if err != nil {
		return nil, false
	}
	if info, err := f.Stat(); err != nil || info.Size() != size {
		_ = f.Close()
		return nil, false
	}
	_ = os.Chtimes(path, time.Now(), time.Now())
	return f, true
}

// keep downloads a segment into a copy. Full: the copy could not be written.
func keep(ctx context.Context, files Files, s Segment, dir, path string) (f io.ReadCloser, full bool, err error) {
	file, err := os.CreateTemp(dir, "*"+partSuffix)
	if err != nil {
		return nil, true, err
	}
	part := &room{File: file}
	err = download(ctx, files, s, part)
	closed := part.Close()
	if err == nil && closed == nil {
		if err = os.Rename(part.Name(), path); err == nil {
			f, err = os.Open(path)
			return f, err != nil, err
		}
		part.full = true
	}
	_ = os.Remove(part.Name())
	return nil, part.full || closed != nil, errors.Join(err, closed)
}

// room is a file that may find no room.
type room struct {
	*os.File
	full bool
}

func (r *room) Write(p []byte) (int, error) {
	n, err := r.File.Write(p)
	r.full = r.full || err != nil
	return n, err
}

// ReadFrom keeps io.Copy from going past Write.
func (r *room) ReadFrom(in io.Reader) (int64, error) { return io.Copy(struct{ io.Writer }{r}, in) }

// download copies the bytes of a segment.
func download(ctx context.Context, files Files, s Segment, to io.Writer) error {
	in, err := files.Open(ctx, s.Name())
	if err != nil {
		return err
	}
	n, err := io.Copy(to, io.LimitReader(in, s.Bytes+1))
	if err = errors.Join(err, in.Close()); err != nil {
		return fmt.Errorf("read %s: %w", s.Path, err)
	}
	if n != s.Bytes {
		return s.corrupt("it has %d bytes, and was listed with %d", n, s.Bytes)
	}
	return nil
}

// trim removes the copies that were used least lately, until so many bytes have room.
func (c *Cache) trim(room int64) error {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return err
	}
	var copies []fs.FileInfo
	total := room
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.Contains(e.Name(), segmentSuffix+"-") {
			copies = append(copies, info)
			total += info.Size()
		}
	}
	slices.SortFunc(copies, func(x, y fs.FileInfo) int {
		return cmp.Or(x.ModTime().Compare(y.ModTime()), cmp.Compare(x.Name(), y.Name()))
	})
	for _, f := range copies {
		if total <= c.max {
			break
		}
		if err := os.Remove(filepath.Join(c.dir, f.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		total -= f.Size()
	}
	return nil
}

// drop removes the copy of a segment, which may be damaged.
func (c *Cache) drop(logID string, s Segment) {
	if c != nil {
		_ = os.Remove(c.path(logID, s))
	}
}
