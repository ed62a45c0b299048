package kube

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"millwright/events"
	apikube "millwright/services/internal/kube"
	"millwright/services/watcher"
)

// probeTimeout of the request that checks whether the API server answers.
const probeTimeout = 2 * time.Second

// Source implements watcher.Kube.
type Source struct {
	clients clients
	logger  zerolog.Logger
	kinds   []kind
	// surge: Deployments are published while a DisruptionPolicy asks for surge.
	surge bool

	mu sync.Mutex
	// watches of the epoch that runs; nil between epochs.
	watches []*watched
	// readable tells of each optional kind whether it could be read once, in whatever epoch.
	readable map[events.Kind]*atomic.Bool
}

var _ watcher.Kube = (*Source)(nil)

// New returns a Source that watches through config; it sends no request yet.
func New(config *rest.Config, logger zerolog.Logger) (*Source, error) {
	clients, err := newClients(config)
	if err != nil {
		return nil, fmt.Errorf("watch the API server: %w", err)
	}
	return &Source{clients: clients, logger: logger, kinds: kinds}, nil
}

// Watch implements watcher.Kube. It returns when ctx has ended; what fails before is retried.
func (s *Source) Watch(ctx context.Context, sink watcher.Sink, synced func()) error {
	ctx = klog.NewContext(ctx, logr.Discard()) // failures are logged here, once each
	listed, all := countdown(len(s.kinds))
	watches := make([]*watched, 0, len(s.kinds))
	refs := newReferences(s.kinds, s.surge)
	for _, k := range s.kinds {
		w := s.newWatched(k, sink, listed)
		refs.follow(w.store)
		watches = append(watches, w)
	}
	s.setWatches(watches)
	defer s.setWatches(nil)
	g, ctx := errgroup.WithContext(ctx)
	for _, w := range watches {
		g.Go(func() error {
			if w.kind.named {
				return w.runNamed(ctx, refs)
			}
			w.newReflector().RunWithContext(ctx)
			return context.Cause(ctx)
		})
	}
	g.Go(func() error {
		select {
		case <-all:
			synced()
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	return g.Wait()
}

// countdown returns a function and a channel that its n-th call closes.
func countdown(n int) (func(), <-chan struct{}) {
	var calls atomic.Int64
	done := make(chan struct{})
	return func() {
		if calls.Add(1) == int64(n) {
			close(done)
		}
	}, done
}

func (s *Source) setWatches(watches []*watched) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watches = watches
}

func (s *Source) current() []*watched {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.watches
}

// Alive implements watcher.Kube.
func (s *Source) Alive(ctx context.Context) error {
	watches := s.current()
	if watches == nil {
		return errors.New("no watch is running")
	}
	for _, w := range watches {
		if err := w.state(); err != nil {
			return fmt.Errorf("watch %s: %w", w.kind.kind, err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if err := s.clients.probe.Get().AbsPath("/version").Do(ctx).Error(); err != nil {
		return fmt.Errorf("probe the API server: %w", err)
	}
	return nil
}

// Progress implements watcher.Kube.
func (s *Source) Progress() map[string]string {
	progress := map[string]string{}
	for _, w := range s.current() {
		if v := w.store.progress(); v != "" {
			progress[w.kind.kind.String()] = v
		}
	}
	return progress
}

// watched is one kind during one epoch. It is the reflector's ListerWatcher, to learn the results of
// requests.
type watched struct {
	kind   kind
	lister *cache.ListWatch
	store  *store
	logger zerolog.Logger

	// missing is logged once.
	missing sync.Once
	// readable: the kind was listed once by this process.
	readable *atomic.Bool

	mu     sync.Mutex
	listed bool
	failed error
	// beginning is since when the API server has been asked to begin a watch; zero once it has answered.
	beginning time.Time
}

func (s *Source) newWatched(k kind, sink watcher.Sink, listed func()) *watched {
	w := &watched{kind: k, lister: s.clients.lister(k), logger: s.logger, readable: s.readableOf(k)}
	var once sync.Once
	w.store = newStore(k, sink, func() {
		w.noteRequest(nil, true)
		once.Do(listed)
	})
	return w
}

func (s *Source) readableOf(k kind) *atomic.Bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.readable == nil {
		s.readable = map[events.Kind]*atomic.Bool{}
	}
	if s.readable[k.kind] == nil {
		s.readable[k.kind] = &atomic.Bool{}
	}
	return s.readable[k.kind]
}

func (w *watched) newReflector() *cache.Reflector {
	return cache.NewReflectorWithOptions(w, w.kind.example, w.store, cache.ReflectorOptions{
		Name:    w.kind.resource,
		Backoff: &wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 7, Cap: 5 * time.Second},
	})
}

// noteRequest remembers how the last request ended, and logs when that changes.
func (w *watched) noteRequest(err error, listed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if errors.Is(err, context.Canceled) {
		return
	}
	w.listed = w.listed || listed
	if err != nil && w.failed == nil {
		w.logger.Warn().Err(err).Str("kind", w.kind.kind.String()).Msg("watch interrupted")
	}
	if err == nil && w.failed != nil {
		w.logger.Info().Str("kind", w.kind.kind.String()).Msg("watch established again")
	}
	w.failed = err
}

// state is nil while the kind is being watched.
func (w *watched) state() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.failed == nil && !w.listed:
		return errors.New("not listed yet")
	case w.failed == nil && !w.beginning.IsZero() && time.Since(w.beginning) > probeTimeout:
		return errors.New("the API server has not begun it")
	}
	return w.failed
}

func (w *watched) begins(since time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.beginning = since
}

// ListWithContext implements cache.ListerWatcherWithContext.
func (w *watched) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	list, err := w.lister.ListWithContext(ctx, options)
	if w.absent(err) {
		w.noteRequest(nil, false)
		return w.kind.emptyList(), nil
	}
	w.noteRequest(err, false)
	if err == nil {
		w.readable.Store(true)
	}
	return list, err
}

// WatchWithContext implements cache.ListerWatcherWithContext.
func (w *watched) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	w.begins(time.Now())
	defer w.begins(time.Time{})
	stream, err := apikube.Watch(ctx, w.lister.ListWithContext, w.lister.WatchWithContext, options)
	if !w.absent(err) {
		w.noteRequest(err, false)
	}
	return stream, err // the reflector lists again, with a backoff
}

// absent: the cluster has no such kind, or we were never allowed to read it; nothing else may wait for that.
// A right that is taken away leaves the objects as they are: DisruptionPolicies that nobody sees any more
// would forbid nothing. As with any other kind that cannot be read, there are no heartbeats then.
func (w *watched) absent(err error) bool {
	withheld := apierrors.IsForbidden(err) && (w.kind.named || !w.readable.Load())
	if !w.kind.optional || !apierrors.IsNotFound(err) && !withheld {
		return false
	}
	w.missing.Do(func() {
		w.logger.Warn().Err(err).Str("kind", w.kind.kind.String()).Msg("kind cannot be read and counts as empty")
	})
	return true
}

// List and Watch are the forms without a context.
func (w *watched) List(options metav1.ListOptions) (runtime.Object, error) {
	return w.ListWithContext(context.Background(), options)
}

func (w *watched) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return w.WatchWithContext(context.Background(), options)
}
