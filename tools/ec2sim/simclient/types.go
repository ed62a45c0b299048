// Package simclient holds the types of the simulator's control interface (/_control/, JSON) and a client for
// it. Tests and demos use it to take capacity away, inject faults, interrupt instances and read the ledger.
package simclient

import (
	"encoding/json"
	"fmt"
	"time"
)

// Duration travels as text such as "1.5s"; a bare number is taken as seconds.
type Duration time.Duration

// MarshalJSON writes the duration as text.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// UnmarshalJSON reads text or seconds.
func (d *Duration) UnmarshalJSON(data []byte) error {
	var seconds float64
	if err := json.Unmarshal(data, &seconds); err == nil {
		*d = Duration(seconds * float64(time.Second))
		return nil
	}
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("read duration: %w", err)
	}
	parsed, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("read duration: %w", err)
	}
	*d = Duration(parsed)
	return nil
}

// Settings are the delays of the simulated cloud; they can be changed while it runs.
type Settings struct {
	// Pending: how long a launched instance stays pending. ShuttingDown: how long a terminated one shuts
	// down.
	Pending      Duration `json:"pending"`
	ShuttingDown Duration `json:"shuttingDown"`
	// Consistency: how old the answers of Describe* calls are.
	Consistency Duration `json:"consistency"`
	// IAM: how long EC2 refuses a new instance profile.
	IAM Duration `json:"iam"`
	// Retention: how long DescribeInstances still knows a terminated instance.
	Retention Duration `json:"retention"`
	// SpotNotice: time from a spot interruption warning to the end.
	SpotNotice Duration `json:"spotNotice"`
	// Boot: from running to the Node's registration. Ready: from there until KWOK may make it Ready.
	// DevicePlugins: from there until GPUs and other devices show up in the Node's capacity.
	Boot          Duration `json:"boot"`
	Ready         Duration `json:"ready"`
	DevicePlugins Duration `json:"devicePlugins"`
	// BootingPaused: running instances do not register until it is false again.
	BootingPaused bool `json:"bootingPaused"`
}

// Capacity bounds the live instances of the pools it matches; "" and "*" match everything. Every rule that
// matches must leave room. Limit 0 refuses all launches.
type Capacity struct {
	InstanceType string `json:"instanceType,omitempty"`
	Zone         string `json:"zone,omitempty"`
	CapacityType string `json:"capacityType,omitempty"` // on-demand, spot
	// PlacementGroup, by id: the rule is of launches into it alone.
	PlacementGroup string `json:"placementGroup,omitempty"`
	Limit          int    `json:"limit"`
	// Code and Message of the fleet error; default InsufficientInstanceCapacity.
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
}

// Quota of the account: how many vCPUs of a group of families may be pending or running at a time, on demand
// or as spot instances. A launch beyond it fails with VcpuLimitExceeded or MaxSpotInstanceCountExceeded.
type Quota struct {
	// Group as Service Quotas divides the families: standard (A, C, D, H, I, M, R, T, Z), g-vt, p (for spot
	// p5 apart), x, inf, trn, f, dl, hpc, high-memory.
	Group        string `json:"group"`
	CapacityType string `json:"capacityType"` // on-demand, spot
	VCPUs        int    `json:"vcpus"`
}

// Reservation of capacity: Count instances of a type in a zone.
type Reservation struct {
	ID           string `json:"id,omitempty"`
	InstanceType string `json:"instanceType"`
	Zone         string `json:"zone"`
	Count        int    `json:"count"`
	// InstanceMatchCriteria: targeted (default) or open. ReservationType: default (default) or
	// capacity-block. No instance runs in an open one without naming it.
	InstanceMatchCriteria string            `json:"instanceMatchCriteria,omitempty"`
	ReservationType       string            `json:"reservationType,omitempty"`
	Interruptible         bool              `json:"interruptible,omitempty"`
	OwnerID               string            `json:"ownerId,omitempty"`
	Tags                  map[string]string `json:"tags,omitempty"`
	EndTime               *time.Time        `json:"endTime,omitempty"`
	// State (active, expired, cancelled) and Used, the instances that run in it, are only reported.
	State string `json:"state,omitempty"`
	Used  int    `json:"used,omitempty"`
}

// ReservationChange changes what is set.
type ReservationChange struct {
	Count   *int       `json:"count,omitempty"`
	EndTime *time.Time `json:"endTime,omitempty"`
}

// Fault makes calls slow, fail or go unanswered.
type Fault struct {
	ID string `json:"id,omitempty"`
	// Action such as CreateFleet, or "*". Service such as ec2, "" for any.
	Action  string `json:"action"`
	Service string `json:"service,omitempty"`
	// Rate in (0,1] is the share of calls hit; 0 means all. Count, if not 0, is how many are hit in total.
	Rate  float64 `json:"rate,omitempty"`
	Count int     `json:"count,omitempty"`
	// Delay before the call is worked on, or, with After, before it is answered.
	Delay Duration `json:"delay,omitempty"`
	// Code, Message and Status of the error answered; without a code the call succeeds.
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
	Status  int    `json:"status,omitempty"`
	// Drop closes the connection without an answer.
	Drop bool `json:"drop,omitempty"`
	// After lets the call take effect first: an instance is launched and the caller never learns of it.
	After bool `json:"after,omitempty"`
}

// Kinds of EC2's actions that a Limit can name instead of one: those that only read, those of them that are
// called with neither a filter nor pages, and each of those that change something.
const (
	Reading    = "reading"
	Unfiltered = "unfiltered"
	Changing   = "changing"
)

// Limit throttles an action, a kind of actions or all ("*") with a token bucket: RequestLimitExceeded when it
// is empty. An action's own limit goes before that of its kind.
type Limit struct {
	Action    string  `json:"action"`
	PerSecond float64 `json:"perSecond"`
	Burst     int     `json:"burst"`
	// InstancesPerSecond and InstancesBurst limit the instances besides the calls; a burst of 0 does not.
	InstancesPerSecond float64 `json:"instancesPerSecond,omitempty"`
	InstancesBurst     int     `json:"instancesBurst,omitempty"`
}

// Price overrides a price. Zone "" holds for all zones.
type Price struct {
	InstanceType string  `json:"instanceType"`
	CapacityType string  `json:"capacityType"`
	Zone         string  `json:"zone,omitempty"`
	USDPerHour   float64 `json:"usdPerHour"`
}

// ZonalShifts of the cluster, as ARC knows them. Disabled: the cluster is not registered there.
type ZonalShifts struct {
	Disabled bool         `json:"disabled,omitempty"`
	Shifts   []ZonalShift `json:"shifts,omitempty"`
}

// ZonalShift away from a zone, by id, until a time; an autoshift has no end. NotApplied: another takes
// precedence.
type ZonalShift struct {
	AwayFrom   string    `json:"awayFrom"`
	Until      time.Time `json:"until,omitzero"`
	Autoshift  bool      `json:"autoshift,omitempty"`
	NotApplied bool      `json:"notApplied,omitempty"`
}

// Outpost that a subnet is on, and the instance types that it has; they are not kept over a restart.
type Outpost struct {
	ARN           string   `json:"arn"`
	InstanceTypes []string `json:"instanceTypes"`
}

// Entry of the ledger: one call that launched or terminated, or tried to.
type Entry struct {
	Seq       uint64    `json:"seq"`
	Time      time.Time `json:"time"`
	RequestID string    `json:"requestId"`
	// Call is CreateFleet, RunInstances, TerminateInstances or SpotInterruption.
	Call string `json:"call"`
	// Outcome: launched, partial, none, repeated (a known token), mismatch, terminated, refused.
	Outcome string `json:"outcome"`
	Token   string `json:"token,omitempty"`
	// Request is the SHA-256 of the parameters, in hex.
	Request   string            `json:"request,omitempty"`
	FleetID   string            `json:"fleetId,omitempty"`
	Instances []string          `json:"instances,omitempty"`
	Tags      map[string]string `json:"tags,omitempty"`
	Errors    []string          `json:"errors,omitempty"`
	// Unanswered: the effect took place but the caller never got this answer.
	Unanswered bool `json:"unanswered,omitempty"`
}

// Instance as the control interface shows it: its current state, without consistency delay.
type Instance struct {
	ID           string    `json:"id"`
	Type         string    `json:"type"`
	Zone         string    `json:"zone"`
	CapacityType string    `json:"capacityType"`
	State        string    `json:"state"`
	LaunchTime   time.Time `json:"launchTime"`
	PrivateIP    string    `json:"privateIp"`
	PrivateDNS   string    `json:"privateDns"`
	ImageID      string    `json:"imageId"`
	SubnetID     string    `json:"subnetId"`
	FleetID      string    `json:"fleetId,omitempty"`
	// ReservationID of the capacity reservation it runs in.
	ReservationID string `json:"capacityReservationId,omitempty"`
	// PlacementGroup it is in, by id, and the partition there.
	PlacementGroup string            `json:"placementGroup,omitempty"`
	Partition      int               `json:"partition,omitempty"`
	Token          string            `json:"token,omitempty"`
	Tags           map[string]string `json:"tags"`
	// Node is the name of the Node it registered; BootProblem says why it has none.
	Node        string `json:"node,omitempty"`
	BootProblem string `json:"bootProblem,omitempty"`
	Failed      bool   `json:"failed,omitempty"`
}

// Live reports whether the instance still costs money.
func (i Instance) Live() bool { return i.State == "pending" || i.State == "running" }

// Interruption announces an event on the queue. Kind: spot (default; ends the instance after In, or the
// notice of the settings), rebalance, health, state-change. scheduled announces nothing:
// DescribeInstanceStatus returns an event with Code (instance-retirement if empty) and Description, which
// begins after In; it replaces the one before.
type Interruption struct {
	Kind        string    `json:"kind,omitempty"`
	In          *Duration `json:"in,omitempty"`
	Code        string    `json:"code,omitempty"`
	Description string    `json:"description,omitempty"`
}

// Defaults are the names that exist in a new simulated account.
type Defaults struct {
	Cluster           string            `json:"cluster"`
	Region            string            `json:"region"`
	Zones             []string          `json:"zones"`
	KubernetesVersion string            `json:"kubernetesVersion"`
	Account           string            `json:"account"`
	VPC               string            `json:"vpc"`
	Subnets           map[string]string `json:"subnets"` // private subnet by zone
	SubnetTags        map[string]string `json:"subnetTags"`
	SecurityGroups    []string          `json:"securityGroups"`
	SecurityGroupTags map[string]string `json:"securityGroupTags"`
	Role              string            `json:"role"`
	InstanceProfile   string            `json:"instanceProfile"`
	Queue             string            `json:"queue"`
	ClusterEndpoint   string            `json:"clusterEndpoint"`
	ImageVersions     []string          `json:"imageVersions"`
}

// Calls counts the calls of one action by outcome: "ok" or the error code.
type Calls map[string]map[string]int

// Callers holds what callers needed, by access key and IAM action, such as ec2:CreateFleet or iam:PassRole.
type Callers map[string]map[string]Verdicts

// Verdicts count how often something was allowed and refused; Refusals says what for, each text once.
type Verdicts struct {
	Allowed  int      `json:"allowed"`
	Refused  int      `json:"refused"`
	Refusals []string `json:"refusals,omitempty"`
}
