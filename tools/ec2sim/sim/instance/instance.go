// Package instance is EC2's part for instances: fleets, launches, terminations, descriptions, tags and the
// capacity that launches compete for.
package instance

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"millwright/tools/ec2sim/catalogue"
	"millwright/tools/ec2sim/sim/account"
	"millwright/tools/ec2sim/sim/ami"
	"millwright/tools/ec2sim/sim/iam"
	"millwright/tools/ec2sim/sim/network"
	"millwright/tools/ec2sim/sim/placement"
	"millwright/tools/ec2sim/sim/pricing"
	"millwright/tools/ec2sim/sim/reservation"
	"millwright/tools/ec2sim/sim/sqs"
	"millwright/tools/ec2sim/sim/tag"
	"millwright/tools/ec2sim/sim/template"
	"millwright/tools/ec2sim/simclient"
)

// Instance is an EC2 instance. It stores moments, not a state: State computes the state of any time.
type Instance struct {
	ID            string    `json:"id"`
	Type          string    `json:"type"`
	Zone          string    `json:"zone"`
	ZoneID        string    `json:"zoneId"`
	SubnetID      string    `json:"subnetId"`
	ImageID       string    `json:"imageId"`
	CapacityType  string    `json:"capacityType"` // on-demand, spot
	PrivateIP     string    `json:"privateIp"`
	PrivateDNS    string    `json:"privateDns"`
	LaunchTime    time.Time `json:"launchTime"`
	FleetID       string    `json:"fleetId,omitempty"`
	ReservationID string    `json:"reservationId"`
	SpotRequestID string    `json:"spotRequestId,omitempty"`
	// CapacityReservationID of the reservation it was launched into.
	CapacityReservationID string `json:"capacityReservationId,omitempty"`
	// PlacementGroup it is in, by id, and the partition there; "" and 0 for none.
	PlacementGroup string `json:"placementGroup,omitempty"`
	Partition      int    `json:"partition,omitempty"`
	ClientToken    string `json:"clientToken,omitempty"`
	// Data is the launch template's, or what RunInstances said, with the override's image.
	Data        template.Data `json:"data"`
	Groups      []string      `json:"groups"`
	InterfaceID string        `json:"interfaceId"`
	VolumeIDs   []string      `json:"volumeIds"`
	Tags        tag.History   `json:"tags"`
	// PartTags are the tags of volumes, interfaces, the fleet and the spot request.
	PartTags map[string]tag.History `json:"partTags,omitempty"`
	// Pending and ShuttingDown are the delays in force at launch and at termination.
	Pending      time.Duration `json:"pending"`
	ShuttingDown time.Duration `json:"shuttingDown"`
	// TerminateAt, when set, may lie in the future (spot interruption).
	TerminateAt     time.Time `json:"terminateAt,omitzero"`
	TerminateReason string    `json:"terminateReason,omitempty"`
	FailedAt        time.Time `json:"failedAt,omitzero"`
	// Event is scheduled for it; nil for none.
	Event *ScheduledEvent `json:"event,omitempty"`
	// Progress of its kubelet, written by the boot package.
	Progress Progress `json:"progress"`
	// announced is the last state sent to the queue.
	announced string
}

// ScheduledEvent as DescribeInstanceStatus returns it.
type ScheduledEvent struct {
	ID          string    `json:"id"`
	Code        string    `json:"code"`
	Description string    `json:"description,omitempty"`
	NotBefore   time.Time `json:"notBefore"`
}

// Progress is how far an instance has come as a Kubernetes node.
type Progress struct {
	// Node is the name it registered, RegisteredAt when.
	Node         string    `json:"node,omitempty"`
	RegisteredAt time.Time `json:"registeredAt,omitzero"`
	// Alive: KWOK manages the Node. Devices: its GPUs and other devices are published.
	Alive   bool `json:"alive,omitempty"`
	Devices bool `json:"devices,omitempty"`
	// Stopped: its kubelet has been taken away after Alive. Deleted: the Node object, too.
	Stopped bool `json:"stopped,omitempty"`
	Deleted bool `json:"deleted,omitempty"`
	// Problem says why it will never register.
	Problem string `json:"problem,omitempty"`
}

// The instance states, with EC2's codes.
const (
	Pending      = "pending"
	Running      = "running"
	ShuttingDown = "shutting-down"
	Terminated   = "terminated"
)

var stateCodes = map[string]int{Pending: 0, Running: 16, ShuttingDown: 32, Terminated: 48}

// State of the instance at a time not before its launch.
func (in *Instance) State(at time.Time) string {
	if !in.TerminateAt.IsZero() && !at.Before(in.TerminateAt) {
		if at.Before(in.TerminateAt.Add(in.ShuttingDown)) {
			return ShuttingDown
		}
		return Terminated
	}
	if at.Before(in.LaunchTime.Add(in.Pending)) {
		return Pending
	}
	return Running
}

// live reports whether it still holds capacity and an address.
func (in *Instance) live(at time.Time) bool { return in.State(at) != Terminated }

// terminate ends the instance at a time, unless it ends earlier anyway.
func (in *Instance) terminate(at time.Time, reason string, shutdown time.Duration) {
	if in.TerminateAt.IsZero() || at.Before(in.TerminateAt) {
		in.TerminateAt, in.TerminateReason, in.ShuttingDown = at, reason, shutdown
	}
}

// InstanceType returns the catalogue's type.
func (in *Instance) InstanceType() *catalogue.Type { return catalogue.Lookup(in.Type) }

func (in *Instance) view(at time.Time) simclient.Instance {
	return simclient.Instance{
		ID: in.ID, Type: in.Type, Zone: in.Zone, CapacityType: in.CapacityType, State: in.State(at), LaunchTime: in.LaunchTime,
		PrivateIP: in.PrivateIP, PrivateDNS: in.PrivateDNS, ImageID: in.ImageID, SubnetID: in.SubnetID, FleetID: in.FleetID,
		Token: in.ClientToken, Tags: in.Tags.At(at), Node: in.Progress.Node, BootProblem: in.Progress.Problem, Failed: !in.FailedAt.IsZero(),
		ReservationID: in.CapacityReservationID, PlacementGroup: in.PlacementGroup, Partition: in.Partition,
	}
}

// Service is EC2's part for instances: launching, terminating, describing and tagging them, and the capacity
// they take.
type Service struct {
	*account.Account
	deps      Deps
	instances fleet
	capacity  []simclient.Capacity
	quotas    []simclient.Quota
}

// Deps are the other services of the account that launches refer to; all are needed.
type Deps struct {
	VPC          *network.VPC
	Images       *ami.Images
	Templates    *template.Templates
	Profiles     *iam.Profiles
	Queue        *sqs.Queue
	Prices       *pricing.Prices
	Reservations *reservation.Reservations
	Groups       *placement.Groups
}

// New returns the service without instances. It gives the network, the reservations and the queue access
// to its instances.
func New(a *account.Account, deps Deps) *Service {
	s := &Service{Account: a, deps: deps, instances: newFleet()}
	deps.VPC.Occupied, deps.Reservations.Used, deps.Queue.Announce = s.instances.inSubnet, s.instances.inReservation, s.announceStates
	deps.Groups.Members = s.instances.inGroup
	return s
}

// reservationOf is the reservation an instance runs in at a time; "" once it has ended.
func (s *Service) reservationOf(in *Instance, at time.Time) string {
	if s.deps.Reservations.Active(in.CapacityReservationID, at) {
		return in.CapacityReservationID
	}
	return ""
}

func (s *Service) keepInstance(in *Instance) { s.Keep("instance", in.ID, in) }

// fleet is all instances ever launched and still remembered.
type fleet struct {
	byID map[string]*Instance
	// ids in order of launch.
	ids []string
	// parts maps volume, interface, fleet and spot request ids to their instance.
	parts map[string]*Instance
}

func newFleet() fleet {
	return fleet{byID: map[string]*Instance{}, parts: map[string]*Instance{}}
}

func (f *fleet) get(id string) *Instance { return f.byID[id] }

func (f *fleet) partOf(id string) *Instance { return f.parts[id] }

func (f *fleet) addInstance(in *Instance) {
	if f.byID[in.ID] == nil {
		f.ids = append(f.ids, in.ID)
	}
	f.byID[in.ID] = in
	for part := range in.PartTags {
		f.parts[part] = in
	}
}

// all returns the instances in order of launch.
func (f *fleet) all() []*Instance {
	out := make([]*Instance, 0, len(f.ids))
	for _, id := range f.ids {
		out = append(out, f.byID[id])
	}
	return out
}

// sorted returns the instances by id, the order of pages.
func (f *fleet) sorted() []*Instance {
	out := f.all()
	slices.SortFunc(out, func(a, b *Instance) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// forget drops instances that were terminated before a time.
func (f *fleet) forget(before time.Time) (ids []string) {
	f.ids = slices.DeleteFunc(f.ids, func(id string) bool {
		in := f.byID[id]
		gone := !in.TerminateAt.IsZero() && in.TerminateAt.Add(in.ShuttingDown).Before(before)
		if gone {
			ids = append(ids, id)
			delete(f.byID, id)
			for part := range in.PartTags {
				delete(f.parts, part)
			}
		}
		return gone
	})
	return ids
}

// uses reports whether a live instance has the address.
func (f *fleet) uses(addr netip.Addr, at time.Time) bool {
	for _, in := range f.byID {
		if in.PrivateIP == addr.String() && in.live(at) {
			return true
		}
	}
	return false
}

// inSubnet counts the addresses of a subnet that the live instances at a time take.
func (f *fleet) inSubnet(id string, at time.Time) int {
	n := 0
	for _, in := range f.byID {
		if in.SubnetID == id && !in.LaunchTime.After(at) && in.live(at) {
			n += in.Data.Addresses()
		}
	}
	return n
}

// inReservation counts the live instances that ran in a reservation at a time.
func (f *fleet) inReservation(id string, at time.Time) int {
	n := 0
	for _, in := range f.byID {
		if in.CapacityReservationID == id && !in.LaunchTime.After(at) && in.live(at) {
			n++
		}
	}
	return n
}

// inGroup returns the live instances of a placement group at a time.
func (f *fleet) inGroup(id string, at time.Time) []placement.Member {
	var members []placement.Member
	for _, in := range f.all() {
		if in.PlacementGroup == id && !in.LaunchTime.After(at) && in.live(at) {
			members = append(members, placement.Member{Group: id, Zone: in.Zone, Partition: in.Partition})
		}
	}
	return members
}
