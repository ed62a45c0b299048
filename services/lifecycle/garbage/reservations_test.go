package garbage

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rs/zerolog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/services/internal/ec2"
	"millwright/services/internal/service"
)

type hostAt struct {
	service.Host
	now time.Time
}

func (h *hostAt) Now() time.Time { return h.now }

type reservedCache struct {
	Cache
	listed []string
}

func (c *reservedCache) NodeClasses() []*awsv1.EC2NodeClass {
	nc := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	for _, id := range c.listed {
		nc.Status.CapacityReservations = append(nc.Status.CapacityReservations, awsv1.CapacityReservation{ID: id})
	}
	return []*awsv1.EC2NodeClass{nc}
}

type reservationAPI struct {
	active map[string]bool
	err    error
	asked  [][]string
}

func (a *reservationAPI) DescribeCapacityReservations(_ context.Context, terms []awsv1.CapacityReservationSelectorTerm) (found []ec2.CapacityReservation, _ error) {
	var ids []string
	for _, t := range terms {
		if ids = append(ids, t.ID); a.active[t.ID] {
			found = append(found, ec2.CapacityReservation{ID: t.ID})
		}
	}
	a.asked = append(a.asked, ids)
	return found, a.err
}

// EC2 is asked only about reservations that a class does not list, not again while its answer holds, and what
// it does not answer is not known.
func TestReservationsThatNoClassLists(t *testing.T) {
	host, cache := &hostAt{now: time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)}, &reservedCache{listed: []string{"cr-1", "cr-2", "cr-3"}}
	api := &reservationAPI{active: map[string]bool{"cr-1": true, "cr-2": true}}
	g := &Collector{host: host, found: NewFindings(), deps: Deps{Cache: cache, Reservations: api, Logger: zerolog.Nop()}}
	l := &listing{}
	for _, n := range []string{"1", "2", "3"} {
		c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{karpv1.CapacityTypeLabelKey: karpv1.CapacityTypeReserved}}}
		c.Spec.NodeClassRef, c.Status.ProviderID = &karpv1.NodeClassReference{Name: "default"}, "aws:///eu-1a/i-"+n
		l.claims = append(l.claims, c)
		l.instances = append(l.instances, ec2.Instance{ID: "i-" + n, State: ec2.StateRunning, ReservationID: "cr-" + n})
	}
	l.claims[1].Labels[karpv1.CapacityTypeLabelKey] = karpv1.CapacityTypeOnDemand
	step := func(calls int, running string) {
		t.Helper()
		g.askReservations(t.Context(), l)
		if len(api.asked) != calls {
			t.Fatalf("%d calls %v, want %d", len(api.asked), api.asked, calls)
		}
		for _, id := range []string{"cr-1", "cr-2", "cr-3"} {
			if got := g.found.Running(id); got != (id == running) {
				t.Errorf("%s is running: %v", id, got)
			}
		}
	}
	step(0, "") // all are listed
	cache.listed = nil
	step(1, "cr-1") // cr-2 is nobody's, cr-3 has ended
	host.now = host.now.Add(time.Minute)
	step(1, "cr-1")
	host.now, api.active = host.now.Add(time.Minute), nil
	step(2, "")
	host.now, api.active, api.err = host.now.Add(time.Hour), map[string]bool{"cr-1": true}, errors.New("throttled")
	step(3, "")
	cache.listed = []string{"cr-1", "cr-3"}
	step(3, "")
	if n := g.found.Len(); n != 0 {
		t.Errorf("%d reservations are remembered", n)
	}
}
