package sim

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"millwright/tools/ec2sim/sim/network"
	"millwright/tools/ec2sim/sim/wire"
	"millwright/tools/ec2sim/simclient"
)

// controlPrefix is where the simulator's own interface lives, apart from AWS's.
const controlPrefix = "/_control/"

func isControl(path string) bool {
	return strings.HasPrefix(path, controlPrefix) || path == "/_control"
}

// controlIndex is the help of the interface, by route.
var controlIndex = []string{
	"GET /_control/defaults: names of the account's cluster, subnets, groups, role, queue",
	"GET /_control/instances: all instances as they are now",
	"POST /_control/instances/{id}/interrupt {kind: spot|rebalance|health|state-change|scheduled, in, code, description}: announce on the queue; spot also ends it",
	"POST /_control/instances/{id}/fail: hardware failure: status impaired, the Node stops",
	"POST /_control/instances/{id}/recover: end of the failure (the Node stays stopped)",
	"POST /_control/instances/{id}/terminate: as if someone else had terminated it",
	"GET /_control/ledger?since=N: every launch and termination",
	"GET /_control/calls: calls by action and outcome",
	"GET /_control/callers: what each access key needed, by IAM action: how often it was allowed and refused (--policies)",
	"GET, PATCH /_control/settings: delays, bootingPaused",
	"GET, PUT, DELETE /_control/capacity [{instanceType, zone, capacityType, placementGroup, limit, code, message}]: PUT replaces all rules; POST adds one",
	"GET, PUT, DELETE /_control/quotas [{group: standard|dl|f|g-vt|high-memory|hpc|inf|p|p5 (spot)|trn|x, capacityType: on-demand|spot, vcpus}]: of the account; a group without one has no limit",
	"GET, POST, DELETE /_control/faults {action, service, rate, count, delay, code, message, status, drop, after}",
	"GET, PUT, DELETE /_control/limits [{action, perSecond, burst, instancesPerSecond, instancesBurst}]: an action, reading, unfiltered, changing or *; POST sets those that EC2 publishes",
	"GET, PUT, DELETE /_control/prices [{instanceType, capacityType, zone, usdPerHour}]",
	"GET, POST /_control/reservations {id, instanceType, zone, count, instanceMatchCriteria, ownerId, tags, endTime}: capacity reservations",
	"PATCH, DELETE /_control/reservations/{id} {count, endTime}: resize one, or say when it ends; DELETE cancels it",
	"PUT /_control/subnets/{id} {availableAddresses, outpost: {arn, instanceTypes}}: -1 for the real number",
	"POST /_control/images {date: YYYYMMDD, bottlerocket: x.y.z}: a new release; recommended and latest move to it",
	"GET, PUT /_control/zonalshifts {disabled, shifts: [{awayFrom, until, autoshift, notApplied}]}: zones, by id, that ARC shifts the cluster away from",
	"PUT /_control/parameters {name, value}: an SSM parameter",
}

func (s *Server) serveControl(w http.ResponseWriter, r *http.Request) {
	path := strings.Trim(strings.TrimPrefix(r.URL.Path, "/_control"), "/")
	result, err := s.control(r, path)
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		var refusal *wire.Error
		status := http.StatusBadRequest
		if errors.As(err, &refusal) {
			status = refusal.Status
		}
		w.WriteHeader(status)
		result = map[string]string{"error": err.Error()}
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.Encode(result)
}

func (s *Server) control(r *http.Request, path string) (any, error) {
	resource, rest, _ := strings.Cut(path, "/")
	switch r.Method + " " + resource {
	case "GET ":
		return controlIndex, nil
	case "GET defaults":
		return s.Defaults(), nil
	case "GET instances":
		return s.Instances(), nil
	case "GET ledger":
		since, _ := strconv.ParseUint(r.URL.Query().Get("since"), 10, 64)
		return s.Ledger(since), nil
	case "GET calls":
		return s.Calls(), nil
	case "GET callers":
		return s.Callers(), nil
	case "POST instances":
		return s.instances.Control(r, rest)
	}
	s.account.Lock()
	defer s.account.Unlock()
	switch resource {
	case "settings":
		return s.account.ControlSettings(r)
	case "capacity":
		return s.instances.ControlCapacity(r)
	case "quotas":
		return s.instances.ControlQuotas(r)
	case "faults":
		return s.faults.ControlFaults(r, rest)
	case "limits":
		return s.faults.ControlLimits(r)
	case "prices":
		return s.prices.Control(r)
	case "reservations":
		return s.reservations.Control(r, rest)
	case "subnets":
		return s.vpc.Control(r, rest)
	case "images":
		return s.images.ControlImages(r)
	case "zonalshifts":
		return s.cluster.Control(r)
	case "parameters":
		return s.images.ControlParameters(r)
	}
	return nil, wire.UnknownControl(r)
}

// Defaults returns the names that exist in the account.
func (s *Server) Defaults() simclient.Defaults {
	s.account.Lock()
	defer s.account.Unlock()
	d := simclient.Defaults{
		Cluster: s.account.Cfg.ClusterName, Region: s.account.Region.Name, KubernetesVersion: s.account.Cfg.KubernetesVersion, Account: s.account.Cfg.AccountID,
		VPC: s.vpc.VPCID, Subnets: map[string]string{}, SubnetTags: map[string]string{network.DiscoveryTag: s.account.Cfg.ClusterName},
		SecurityGroupTags: map[string]string{network.DiscoveryTag: s.account.Cfg.ClusterName}, Role: s.profiles.NodeRole(),
		InstanceProfile: s.profiles.NodeProfile(), Queue: s.account.Cfg.ClusterName, ClusterEndpoint: s.account.Cfg.ClusterEndpoint,
		ImageVersions: s.images.Versions(),
	}
	for _, z := range s.account.Region.Zones {
		d.Zones = append(d.Zones, z.Name)
		d.Subnets[z.Name] = s.vpc.SubnetIn(z.Name).ID
	}
	for _, g := range s.vpc.Groups {
		if g.Tags[network.DiscoveryTag] != "" {
			d.SecurityGroups = append(d.SecurityGroups, g.Name)
		}
	}
	return d
}
