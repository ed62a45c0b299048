package cloud

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"millwright/services/internal/ec2"
	"millwright/services/sim/clock"
)

// Cloud is one account in one region.
type Cloud struct {
	clock *clock.Clock
	rng   *rand.Rand
	// LagMax bounds how old a describe call's answer may be.
	LagMax time.Duration
	// Short is how many of a thousand fleets for several instances launch fewer.
	Short int

	instances []*Instance
	byID      map[string]*Instance
	fleets    map[string]fleet
	templates templates
	exhausted map[Offering]bool
	watchers  []func(*Instance)
	// reservations of capacity.
	reservations []*Reservation
}

// Instance with its whole history. Instance.State is the present one.
type Instance struct {
	ec2.Instance
	// Template it was launched from, as it was then.
	Template ec2.LaunchTemplate
	history  []moment
}

type moment struct {
	at    time.Time
	state string
}

// New returns an account without instances.
func New(c *clock.Clock, rng *rand.Rand) *Cloud {
	return &Cloud{clock: c, rng: rng, byID: map[string]*Instance{}, fleets: map[string]fleet{}, exhausted: map[Offering]bool{},
		templates: newTemplates()}
}

// Watch has fn told of every change of an instance's state, its launch included.
func (c *Cloud) Watch(fn func(*Instance)) { c.watchers = append(c.watchers, fn) }

// Instances in the order of their launches, terminated ones included.
func (c *Cloud) Instances() []*Instance { return c.instances }

// Instance of an id; nil if there is none.
func (c *Cloud) Instance(id string) *Instance { return c.byID[id] }

// Exhaust sets whether EC2 has none of an offering.
func (c *Cloud) Exhaust(o Offering, none bool) { c.exhausted[o] = none }

// Restock makes every offering available again.
func (c *Cloud) Restock() { c.exhausted = map[Offering]bool{} }

func (c *Cloud) between(a, b time.Duration) time.Duration {
	return a + time.Duration(c.rng.Int64N(int64(b-a)+1))
}

func (c *Cloud) launch(o override, tags map[string]string) *Instance {
	i := &Instance{Template: c.templates.byID[o.template], Instance: ec2.Instance{
		ID: fmt.Sprintf("i-%08d", len(c.instances)+1), InstanceType: o.InstanceType, Zone: o.Zone, CapacityType: o.CapacityType,
		SubnetID: o.subnet, ImageID: o.image, Tenancy: "default", LaunchTime: c.clock.Now(), Tags: tags,
	}}
	if o.reservation != nil {
		i.ReservationID = o.reservation.ID
	}
	for _, n := range i.Template.Data.NetworkInterfaces {
		i.SecurityGroupIDs = n.Groups // all have the same
	}
	c.instances = append(c.instances, i)
	c.byID[i.ID] = i
	c.move(i, ec2.StatePending)
	c.clock.After(c.between(time.Second, 8*time.Second), func() {
		if i.State == ec2.StatePending {
			c.move(i, ec2.StateRunning)
		}
	})
	return i
}

func (c *Cloud) move(i *Instance, state string) {
	i.State = state
	i.history = append(i.history, moment{c.clock.Now(), state})
	for _, w := range c.watchers {
		w(i)
	}
}

// End starts the end of an instance, whoever wants it.
func (c *Cloud) End(i *Instance) {
	if i.Ending() {
		return
	}
	c.move(i, ec2.StateShuttingDown)
	c.clock.After(c.between(2*time.Second, 30*time.Second), func() { c.move(i, ec2.StateTerminated) })
}

// TerminateInstances ends those that are visible; others count as ended, as the adapter has it.
func (c *Cloud) TerminateInstances(ids []string) error {
	at := c.horizon()
	for _, id := range ids {
		if i := c.byID[id]; i != nil && !i.LaunchTime.After(at) {
			c.End(i)
		}
	}
	return nil
}

// horizon is the past a call sees.
func (c *Cloud) horizon() time.Time { return c.clock.Now().Add(-c.between(0, c.LagMax)) }

// seen returns the instance as it was; false if it was not there yet.
func (i *Instance) seen(at time.Time) (ec2.Instance, bool) {
	out := i.Instance
	out.State = ""
	for _, m := range i.history {
		if !m.at.After(at) {
			out.State = m.state
		}
	}
	return out, out.State != ""
}

// DescribeInstances leaves out ids it does not see.
func (c *Cloud) DescribeInstances(ids []string) ([]ec2.Instance, error) {
	return c.describe(func(i ec2.Instance) bool { return slices.Contains(ids, i.ID) }), nil
}

// DescribeInstancesByTags leaves out terminated instances unless states are named. The value * asks for the
// key only.
func (c *Cloud) DescribeInstancesByTags(tags map[string]string, states ...string) ([]ec2.Instance, error) {
	return c.describe(func(i ec2.Instance) bool {
		if len(states) == 0 && i.Gone() || len(states) > 0 && !slices.Contains(states, i.State) {
			return false
		}
		for key, want := range tags {
			if have, ok := i.Tags[key]; !ok || want != "*" && have != want {
				return false
			}
		}
		return true
	}), nil
}

func (c *Cloud) describe(wanted func(ec2.Instance) bool) []ec2.Instance {
	var list []ec2.Instance
	at := c.horizon()
	for _, i := range c.instances {
		if shown, ok := i.seen(at); ok && wanted(shown) {
			list = append(list, shown)
		}
	}
	return list
}

// CreateTags adds tags. The map is replaced: answers given before keep the old one.
func (c *Cloud) CreateTags(id string, tags map[string]string) error {
	i := c.byID[id]
	if i == nil {
		return apiError("ec2:CreateTags", "InvalidInstanceID.NotFound")
	}
	all := map[string]string{}
	for _, m := range []map[string]string{i.Tags, tags} {
		for key, value := range m {
			all[key] = value
		}
	}
	i.Tags = all
	return nil
}
