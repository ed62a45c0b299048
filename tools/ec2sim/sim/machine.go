package sim

import (
	"time"

	"millwright/tools/ec2sim/catalogue"
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
	// ImageFamily is AL2023, AL2 or Bottlerocket.
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
func (s *Server) Machines() []Machine {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, out := s.now(), make([]Machine, 0, len(s.instances.ids))
	for _, in := range s.instances.all() {
		out = append(out, s.machine(in, now))
	}
	return out
}

func (s *Server) machine(in *Instance, now time.Time) Machine {
	m := Machine{
		ID: in.ID, Type: in.InstanceType(), State: in.State(now), Zone: in.Zone, ZoneID: in.ZoneID, Region: s.region.Name,
		PrivateIP: in.PrivateIP, PrivateDNS: in.PrivateDNS, UserData: in.Data.UserData, RunningAt: in.LaunchTime.Add(in.Pending),
		Failed: !in.FailedAt.IsZero(), EFAs: in.Data.EFAs(), DeviceGiB: map[string]int{}, Progress: in.Progress,
	}
	if im := s.images[in.ImageID]; im != nil {
		m.ImageFamily = im.Family
	}
	for _, d := range in.Data.Devices {
		m.DeviceGiB[d.Name] = d.Size
	}
	return m
}

// SetProgress keeps what the boot package did for an instance.
func (s *Server) SetProgress(id string, p Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in := s.instances.get(id); in != nil {
		in.Progress = p
		s.keepInstance(in)
	}
}

// Now is the account's clock.
func (s *Server) Now() time.Time { return s.now() }
