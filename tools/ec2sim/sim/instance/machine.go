package instance

import (
	"encoding/json"
	"net/netip"
	"time"

	"millwright/tools/ec2sim/catalogue"
	"millwright/tools/ec2sim/sim/account"
	"millwright/tools/ec2sim/simclient"
)

// Machine is an instance as the boot package sees it: a copy, with its state of the moment.
type Machine struct {
	ID         string
	Type       *catalogue.Type
	State      string
	Zone       string
	ZoneID     string
	Region     string
	PrivateIP  string
	PrivateDNS string
	// ImageFamily is AL2023, AL2, Bottlerocket or Windows with its year.
	ImageFamily string
	// UserData in base64; RunningAt is when the instance became running.
	UserData  string
	RunningAt time.Time
	// Failed: the hardware is broken.
	Failed bool
	EFAs   int
	// DeviceGiB are the sizes of the block devices by name.
	DeviceGiB map[string]int
	Progress  Progress
}

// Machines returns the instances in order of launch.
func (s *Service) Machines() []Machine {
	s.Lock()
	defer s.Unlock()
	now, out := s.Now(), make([]Machine, 0, len(s.instances.ids))
	for _, in := range s.instances.all() {
		out = append(out, s.machine(in, now))
	}
	return out
}

func (s *Service) machine(in *Instance, now time.Time) Machine {
	m := Machine{
		ID: in.ID, Type: in.InstanceType(), State: in.State(now), Zone: in.Zone, ZoneID: in.ZoneID, Region: s.Region.Name,
		PrivateIP: in.PrivateIP, PrivateDNS: in.PrivateDNS, UserData: in.Data.UserData, RunningAt: in.LaunchTime.Add(in.Pending),
		Failed: !in.FailedAt.IsZero(), EFAs: in.Data.EFAs(), DeviceGiB: map[string]int{}, Progress: in.Progress,
	}
	if im := s.deps.Images.ByID[in.ImageID]; im != nil {
		m.ImageFamily = im.Family
	}
	for _, d := range in.Data.Devices {
		m.DeviceGiB[d.Name] = d.Size
	}
	return m
}

// SetProgress keeps what the boot package did for an instance.
func (s *Service) SetProgress(id string, p Progress) {
	s.Lock()
	defer s.Unlock()
	if in := s.instances.get(id); in != nil {
		in.Progress = p
		s.keepInstance(in)
	}
}

// List returns all instances as they are now, in order of launch.
func (s *Service) List() []simclient.Instance {
	s.Lock()
	defer s.Unlock()
	s.forgetOld()
	now, out := s.Now(), []simclient.Instance{}
	for _, in := range s.instances.all() {
		out = append(out, in.view(now))
	}
	return out
}

// LoadInstance also moves its subnet's cursor on, so that addresses are not reused early.
func (s *Service) LoadInstance(l account.Entity) error {
	in := &Instance{}
	if err := json.Unmarshal(l.Value, in); err != nil {
		return err
	}
	s.instances.addInstance(in)
	addr, err := netip.ParseAddr(in.PrivateIP)
	if sub := s.deps.VPC.Subnet(in.SubnetID); err == nil && sub != nil && (!sub.Cursor.IsValid() || sub.Cursor.Less(addr)) {
		sub.Cursor = addr
	}
	in.announced = in.State(s.Now())
	return nil
}
