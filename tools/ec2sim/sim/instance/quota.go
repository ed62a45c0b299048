package instance

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"millwright/tools/ec2sim/catalogue"
	"millwright/tools/ec2sim/sim/account"
	"millwright/tools/ec2sim/sim/wire"
	"millwright/tools/ec2sim/simclient"
)

// quotaKey names a quota: how many vCPUs may run of a group of families, on demand or as spot instances.
type quotaKey struct{ group, capacityType string }

// quotaGroups are those of EC2's quotas, by the category of the instance types in them. Macs run on dedicated
// hosts, which are counted otherwise.
var quotaGroups = map[string]string{
	"a": "standard", "c": "standard", "d": "standard", "h": "standard", "i": "standard", "m": "standard", "r": "standard", "t": "standard", "z": "standard",
	"dl": "dl", "f": "f", "g": "g-vt", "gr": "g-vt", "vt": "g-vt", "u": "high-memory", "hpc": "hpc", "im": "standard", "is": "standard", "inf": "inf", "p": "p",
	"trn": "trn", "x": "x",
}

// quotaOf a type: P5 has one of its own as a spot instance.
func quotaOf(t *catalogue.Type, capacityType string) quotaKey {
	group := quotaGroups[t.Category()]
	if group == "p" && capacityType == spotLaunch && strings.HasPrefix(t.Family, "p5") {
		group = "p5"
	}
	if capacityType != spotLaunch {
		capacityType = onDemandLaunch
	}
	return quotaKey{group, capacityType}
}

const spotLaunch, onDemandLaunch = "spot", "on-demand"

// ControlQuotas sets the quotas of vCPUs, over the control interface. A group without one has no limit.
func (s *Service) ControlQuotas(r *http.Request) (any, error) {
	quotas := []simclient.Quota{}
	switch r.Method {
	case http.MethodGet:
		return append(quotas, s.quotas...), nil
	case http.MethodDelete:
	case http.MethodPut:
		if err := wire.DecodeControl(r, &quotas); err != nil {
			return nil, err
		}
	default:
		return nil, wire.UnknownControl(r)
	}
	for _, q := range quotas {
		if err := checkQuota(q); err != nil {
			return nil, err
		}
	}
	s.quotas = quotas
	s.Keep("quotas", "quotas", s.quotas)
	return s.quotas, nil
}

func checkQuota(q simclient.Quota) error {
	known := q.Group == "p5" && q.CapacityType == spotLaunch
	for _, group := range quotaGroups {
		known = known || group == q.Group
	}
	switch {
	case !known:
		return wire.Refuse("InvalidQuota", "there is no group %q of %s instances", q.Group, q.CapacityType)
	case !slices.Contains([]string{onDemandLaunch, spotLaunch}, q.CapacityType):
		return wire.Refuse("InvalidQuota", "the capacity type %q is neither spot nor on-demand", q.CapacityType)
	case q.VCPUs < 0:
		return wire.Refuse("InvalidQuota", "vcpus must not be negative")
	}
	return nil
}

// quotaError refuses one more instance that its quota has no vCPUs for. What runs in a reservation uses the
// quota up, and is not refused: EC2 has counted it since it was reserved.
func (s *Service) quotaError(c *candidate, u *usage) *wire.Error {
	key := quotaOf(c.launch.instanceType, c.launch.capacityType)
	for _, q := range s.quotas {
		if q.Group != key.group || q.CapacityType != key.capacityType || u.vcpus[key]+c.launch.instanceType.VCPUs <= q.VCPUs {
			continue
		}
		if key.capacityType == spotLaunch {
			return wire.Refuse("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded")
		}
		return wire.Refuse("VcpuLimitExceeded", "You have requested more vCPU capacity than your current vCPU limit of %d allows for the instance bucket that the "+
			"specified instance type belongs to. Please visit http://aws.amazon.com/contact-us/ec2-request to request an adjustment to this limit.", q.VCPUs)
	}
	return nil
}

// addQuota counts the vCPUs of an instance, which uses its quota up from its launch until it shuts down.
func (u *usage) addQuota(t *catalogue.Type, capacityType string) {
	if t != nil {
		u.vcpus[quotaOf(t, capacityType)] += t.VCPUs
	}
}

// usesQuota reports that the instance is pending or running.
func (in *Instance) usesQuota(now time.Time) bool {
	state := in.State(now)
	return state == Pending || state == Running
}

// LoadQuotas puts the quotas of the journal back.
func (s *Service) LoadQuotas(l account.Entity) error { return json.Unmarshal(l.Value, &s.quotas) }
