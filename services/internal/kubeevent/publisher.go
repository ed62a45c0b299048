package kubeevent

import (
	"context"
	"crypto/sha256"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/lru"

	"millwright/services/internal/service"
)

const (
	// Component is the source of all events (reference: operations §3).
	Component = "karpenter"

	dedupeDefault = 2 * time.Minute
	rememberedMax = 16384
	// getTimeout bounds asking for the UID of an object.
	getTimeout = 5 * time.Second
)

// Sink takes an event for an object; record.EventRecorder has this method.
type Sink interface {
	Event(object runtime.Object, eventType, reason, message string)
}

// Publisher publishes KubeEvents. Safe for concurrent use.
type Publisher struct {
	sink  Sink
	clock func() time.Time

	mu sync.Mutex
	// until is when each of the last rememberedMax events may be repeated, a quiet by eventKey.
	until    *lru.Cache
	limiters map[string]*rate.Limiter
}

// quiet is when an event was published, and until when it is not repeated.
type quiet struct{ at, until time.Time }

// holds is false too if the clock was set back since.
func (q quiet) holds(now time.Time) bool { return !now.Before(q.at) && now.Before(q.until) }

// New returns a Publisher over a sink; clock is the process's.
func New(sink Sink, clock func() time.Time) *Publisher {
	return &Publisher{sink: sink, clock: clock, until: lru.New(rememberedMax), limiters: map[string]*rate.Limiter{}}
}

// NewRecorder returns a sink that writes to the API server, and the function that stops it. It drops events
// when the API server cannot take them as fast as they come.
func NewRecorder(core kubernetes.Interface, scheme *runtime.Scheme) (Sink, func()) {
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(identified{&typedcorev1.EventSinkImpl{Interface: core.CoreV1().Events("")}, core.CoordinationV1()})
	return broadcaster.NewRecorder(scheme, corev1.EventSource{Component: Component}), broadcaster.Shutdown
}

// identified gives events about a Lease its UID, by which kubectl describe finds them: who publishes them
// knows its name alone.
type identified struct {
	record.EventSink
	leases coordinationv1.LeasesGetter
}

// Create writes an event. The recorder calls it from a goroutine of its own.
func (s identified) Create(e *corev1.Event) (*corev1.Event, error) {
	if o := &e.InvolvedObject; o.Kind == "Lease" && o.UID == "" {
		ctx, cancel := context.WithTimeout(context.Background(), getTimeout)
		defer cancel()
		if lease, err := s.leases.Leases(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{}); err == nil { // else it is better told without
			e = e.DeepCopy()
			e.InvolvedObject.UID = lease.UID
		}
	}
	return s.EventSink.Create(e)
}

// Publish hands the event on unless it repeats one or there are too many of its reason.
func (p *Publisher) Publish(e service.KubeEvent) {
	if p.admitEvent(e) {
		object := e.Object
		p.sink.Event(&object, e.Type, e.Reason, e.Message)
	}
}

func (p *Publisher) admitEvent(e service.KubeEvent) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, key := p.clock(), dedupeKey(e)
	keep := e.DedupeFor
	if keep == 0 {
		keep = dedupeDefault
	}
	if last, ok := p.until.Get(key); ok && last.(quiet).holds(now) {
		return false
	}
	if !p.limiter(e.Reason).AllowN(now, 1) {
		return false
	}
	p.until.Add(key, quiet{now, now.Add(keep)})
	return true
}

// eventKey is a hash: messages may be long, and there are many.
type eventKey [16]byte

// dedupeKey keeps events of one reason for objects of the same name but another kind or namespace apart.
func dedupeKey(e service.KubeEvent) eventKey {
	o := e.Object
	detail := e.DedupeKey
	if detail == "" {
		detail = e.Message
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{o.Kind, o.Namespace, o.Name, string(o.UID), e.Reason, detail}, "\x00")))
	return eventKey(sum[:16])
}

func (p *Publisher) limiter(reason string) *rate.Limiter {
	b, ok := p.limiters[reason]
	if !ok {
		b = rate.NewLimiter(limitOf(reason))
		p.limiters[reason] = b
	}
	return b
}

// limitOf returns events per second and burst of a reason (reference: scheduling §11).
func limitOf(reason string) (perSecond rate.Limit, burst int) {
	if reason == "Nominated" {
		return 5, 10
	}
	return 10, 100
}
