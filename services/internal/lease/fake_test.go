package lease

import (
	"context"
	"errors"
	"strconv"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

var errAway = errors.New("connection refused")

var leases = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

// server is an API server that knows one Lease and checks resource versions.
type server struct {
	mu      sync.Mutex
	lease   *coordinationv1.Lease
	version int
	writes  int
}

// client is one process's way to the server.
type client struct {
	coordinationv1client.LeaseInterface
	server *server

	mu sync.Mutex
	// away: calls fail. lost: writes happen and the answer is an error.
	away, lost bool
	// raced is how many of the next updates come after one of a neighbour; everyRenewal sets it again and
	// again.
	raced, everyRenewal int
}

func (s *server) client() *client { return &client{server: s} }

func (c *client) Leases(string) coordinationv1client.LeaseInterface { return c }

func (c *client) fails(away, lost bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.away, c.lost = away, lost
}

func (c *client) state() (away, lost bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.away, c.lost
}

// isRaced reports whether a neighbour writes first; after as many times as there are to be, one update
// passes.
func (c *client) isRaced() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.raced == 0 {
		c.raced = c.everyRenewal
		return false
	}
	c.raced--
	return true
}

func (c *client) Get(_ context.Context, name string, _ metav1.GetOptions) (*coordinationv1.Lease, error) {
	if away, _ := c.state(); away {
		return nil, errAway
	}
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	if c.server.lease == nil {
		return nil, apierrors.NewNotFound(leases, name)
	}
	return c.server.lease.DeepCopy(), nil
}

func (c *client) Create(_ context.Context, l *coordinationv1.Lease, _ metav1.CreateOptions) (*coordinationv1.Lease, error) {
	return c.write(func(s *server) error {
		if s.lease != nil {
			return apierrors.NewAlreadyExists(leases, l.Name)
		}
		return nil
	}, l)
}

func (c *client) Update(_ context.Context, l *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	if c.isRaced() {
		c.server.mu.Lock()
		c.server.put(c.server.lease.DeepCopy())
		c.server.mu.Unlock()
	}
	return c.write(func(s *server) error {
		switch {
		case s.lease == nil:
			return apierrors.NewNotFound(leases, l.Name)
		case s.lease.ResourceVersion != l.ResourceVersion:
			return apierrors.NewConflict(leases, l.Name, errors.New("it was changed"))
		}
		return nil
	}, l)
}

func (c *client) write(check func(*server) error, l *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	away, lost := c.state()
	if away {
		return nil, errAway
	}
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	if err := check(c.server); err != nil {
		return nil, err
	}
	c.server.put(l.DeepCopy())
	if lost {
		return nil, errAway
	}
	return c.server.lease.DeepCopy(), nil
}

// put stores the Lease. The caller holds the lock.
func (s *server) put(l *coordinationv1.Lease) {
	s.version++
	s.writes++
	l.ResourceVersion = strconv.Itoa(s.version)
	s.lease = l
}

func (s *server) holder() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lease == nil {
		return ""
	}
	return holder(s.lease)
}

// seize writes a holder over whatever there is, as a person with kubectl would.
func (s *server) seize(identity string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &coordinationv1.Lease{}
	if s.lease != nil {
		l = s.lease.DeepCopy()
	}
	seconds := int32(Duration.Seconds())
	l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds = &identity, &seconds
	s.put(l)
}

func (s *server) remove() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lease = nil
}
