package kube

import (
	"fmt"
	"slices"
	"sync"

	"github.com/cespare/xxhash/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"millwright/events"
	"millwright/services/watcher"
)

// store is what a reflector writes to: it publishes what changes and keeps no objects. A new epoch has new
// stores, so that each object is published once per epoch at least.
type store struct {
	kind kind
	sink watcher.Sink
	// listed is called after each complete list.
	listed func()
	// noted is told of each object that was published, nil for one that is gone; replaced that a list is
	// complete. Either may be nil.
	noted    func(key string, object metav1.Object)
	replaced func()

	mu sync.Mutex
	// wanted are the objects of a named kind that are published.
	wanted map[string]bool
	// known objects by "namespace/name".
	known   map[string]known
	sum     events.Sum
	version string
}

// known is what is remembered of an object.
type known struct {
	uid     types.UID
	version string
	// published is the version that was published last.
	published string
	// content is a digest of what was published, less the version.
	content uint64
	// bare: its template was left out.
	bare bool
}

var (
	_ cache.ReflectorStore         = (*store)(nil)
	_ cache.TransformingStore      = (*store)(nil)
	_ cache.ResourceVersionUpdater = (*store)(nil)
	_ cache.ReflectorBookmarkStore = (*store)(nil)
)

func newStore(k kind, sink watcher.Sink, listed func()) *store {
	return &store{kind: k, sink: sink, listed: listed, known: map[string]known{}}
}

// Transformer trims what the reflector collects while it lists, so that it never holds whole objects either.
func (s *store) Transformer() cache.TransformFunc {
	return func(object any) (any, error) {
		o, ok := object.(runtime.Object)
		if !ok {
			return object, nil
		}
		return Trim(o)
	}
}

// Add implements cache.ReflectorStore.
func (s *store) Add(object any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.publishObject(object)
	return err
}

// Update implements cache.ReflectorStore.
func (s *store) Update(object any) error { return s.Add(object) }

// publishObject publishes an object unless what would be published is known, and returns its key.
func (s *store) publishObject(object any) (string, error) {
	o, ok := object.(runtime.Object)
	if !ok {
		return "", fmt.Errorf("watch %s: got %T", s.kind.kind, object)
	}
	trimmed, err := Trim(o)
	if err != nil {
		return "", err
	}
	key := keyOf(trimmed)
	now := known{uid: trimmed.GetUID(), version: trimmed.GetResourceVersion(), published: trimmed.GetResourceVersion()}
	before, found := s.known[key]
	switch {
	case !s.kind.named || s.wanted[key]:
	case s.wanted[every]:
		trimmed, now.bare = withoutTemplate(trimmed), true
	case found:
		return key, s.publishDeletion(key, "")
	default:
		return key, nil
	}
	if found && before.uid == now.uid && before.version == now.version && before.bare == now.bare {
		return key, nil
	}
	if found && before.uid != now.uid {
		if err := s.publishDeletion(key, ""); err != nil {
			return key, err
		}
		found = false
	}
	if !s.kind.everyVersion {
		now.content = content(trimmed)
	}
	if found && now.content != 0 && before.content == now.content {
		now.published = before.published
		s.known[key] = now
		return key, nil
	}
	sum := s.sum
	if found {
		sum.Remove(key, before.uid, before.published)
	}
	sum.Add(key, now.uid, now.published)
	err = s.sink.Publish(watcher.Change{
		Kind: s.kind.kind, Op: events.OpUpsert, UID: string(now.uid), Name: key, ResourceVersion: now.version, Object: trimmed, Sum: sum,
	})
	if err == nil {
		s.known[key], s.sum = now, sum
		if s.noted != nil {
			s.noted(key, trimmed)
		}
	}
	return key, err
}

// publishDeletion publishes that a known object is gone.
func (s *store) publishDeletion(key, version string) error {
	k, sum := s.known[key], s.sum
	sum.Remove(key, k.uid, k.published)
	err := s.sink.Publish(watcher.Change{Kind: s.kind.kind, Op: events.OpDelete, UID: string(k.uid), Name: key, ResourceVersion: version, Sum: sum})
	if err == nil {
		delete(s.known, key)
		s.sum = sum
		if s.noted != nil {
			s.noted(key, nil)
		}
	}
	return err
}

// Delete implements cache.ReflectorStore.
func (s *store) Delete(object any) error {
	o, ok := object.(metav1.Object)
	if !ok {
		return fmt.Errorf("watch %s: got %T", s.kind.kind, object)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := keyOf(o)
	if _, found := s.known[key]; !found {
		return nil
	}
	return s.publishDeletion(key, o.GetResourceVersion())
}

// Replace implements cache.ReflectorStore: it publishes what is new or changed, in the order of names, and
// the deletion of what the list does not hold.
func (s *store) Replace(list []any, version string) error {
	if err := s.replace(list); err != nil {
		return err
	}
	s.UpdateResourceVersion(version)
	if s.replaced != nil {
		s.replaced()
	}
	s.listed()
	return nil
}

// setWanted says which objects of a named kind are published from here on. What was published of others is
// dropped by the next list.
func (s *store) setWanted(keys map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted = keys
}

func (s *store) replace(list []any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	present := make(map[string]bool, len(list))
	for i, object := range list {
		key, err := s.publishObject(object)
		if err != nil {
			return err
		}
		present[key] = true
		list[i] = nil // it is published: let it go
	}
	var gone []string
	for key := range s.known {
		if !present[key] {
			gone = append(gone, key)
		}
	}
	slices.Sort(gone)
	for _, key := range gone {
		if err := s.publishDeletion(key, ""); err != nil {
			return err
		}
	}
	return nil
}

// Resync implements cache.ReflectorStore; resyncs are epochs here.
func (s *store) Resync() error { return nil }

// Bookmark implements cache.ReflectorBookmarkStore.
func (s *store) Bookmark(version string) error {
	s.UpdateResourceVersion(version)
	return nil
}

// UpdateResourceVersion implements cache.ResourceVersionUpdater.
func (s *store) UpdateResourceVersion(version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version = version
}

func (s *store) progress() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

func keyOf(o metav1.Object) string {
	if o.GetNamespace() == "" {
		return o.GetName()
	}
	return o.GetNamespace() + "/" + o.GetName()
}

// content digests a trimmed object without its version; 0 if that cannot be done: then it is published.
func content(o metav1.Object) uint64 {
	version := o.GetResourceVersion()
	o.SetResourceVersion("")
	defer o.SetResourceVersion(version)
	p, ok := o.(interface{ Marshal() ([]byte, error) })
	if !ok {
		return 0
	}
	data, err := p.Marshal()
	if err != nil {
		return 0
	}
	return xxhash.Sum64(data)
}
