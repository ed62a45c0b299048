package membus

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"millwright/events"
)

type blobs struct {
	mu   sync.Mutex
	data map[string][]byte
}

func (b *blobs) Put(_ context.Context, name string, data []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.data[name] = slices.Clone(data)
	return nil
}

func (b *blobs) Write(ctx context.Context, name string, write func(io.Writer) error) error {
	var data bytes.Buffer
	if err := write(&data); err != nil {
		return fmt.Errorf("put blob %s: %w", name, err)
	}
	return b.Put(ctx, name, data.Bytes())
}

func (b *blobs) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	data, err := b.Get(ctx, name)
	return io.NopCloser(bytes.NewReader(data)), err
}

func (b *blobs) Get(_ context.Context, name string) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	data, ok := b.data[name]
	if !ok {
		return nil, fmt.Errorf("blob %s: %w", name, events.ErrNotFound)
	}
	return slices.Clone(data), nil
}

func (b *blobs) Delete(_ context.Context, name string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.data, name)
	return nil
}

func (b *blobs) List(_ context.Context, prefix string) ([]string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	names := slices.DeleteFunc(slices.Collect(maps.Keys(b.data)), func(n string) bool { return !strings.HasPrefix(n, prefix) })
	slices.Sort(names)
	return names, nil
}
