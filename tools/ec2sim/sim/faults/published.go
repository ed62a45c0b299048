package faults

import (
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"millwright/tools/ec2sim/sim/wire"
	"millwright/tools/ec2sim/simclient"
)

// Published are the limits that EC2 publishes for an account in a region (EC2 Developer Guide, "Request
// throttling for the Amazon EC2 API"), as far as the simulator knows the actions. Those of reading are shared
// by all actions of a kind, which is stricter than EC2 may be; Changing holds for each action by itself.
func Published() []simclient.Limit {
	return []simclient.Limit{
		{Action: simclient.Reading, PerSecond: 20, Burst: 100},
		{Action: simclient.Unfiltered, PerSecond: 10, Burst: 50},
		{Action: simclient.Changing, PerSecond: 5, Burst: 50},
		{Action: "RunInstances", PerSecond: 2, Burst: 5, InstancesPerSecond: 2, InstancesBurst: 1000},
		{Action: "TerminateInstances", PerSecond: 5, Burst: 100, InstancesPerSecond: 20, InstancesBurst: 1000},
		{Action: "CreateTags", PerSecond: 10, Burst: 100},
		{Action: "DeleteTags", PerSecond: 10, Burst: 100},
		{Action: "CreateLaunchTemplateVersion", PerSecond: 5, Burst: 100},
	}
}

// unfilteredActions read too much to be called often with neither a filter nor pages.
var unfilteredActions = []string{"DescribeInstances", "DescribeInstanceStatus", "DescribeSecurityGroups"}

// bucket of an action, or of a kind of actions.
type bucket struct {
	calls, instances *rate.Limiter
}

func newBucket(l simclient.Limit) *bucket {
	b := &bucket{calls: rate.NewLimiter(rate.Limit(l.PerSecond), l.Burst)}
	if l.InstancesBurst > 0 {
		b.instances = rate.NewLimiter(rate.Limit(l.InstancesPerSecond), l.InstancesBurst)
	}
	return b
}

func (b *bucket) allows(now time.Time, instances int) bool {
	return b.calls.AllowN(now, 1) && (b.instances == nil || instances == 0 || b.instances.AllowN(now, instances))
}

// throttled reports that a limit refuses the call: that of all, and the first of its own and its kind's.
func (s *Faults) throttled(c *wire.Call) bool {
	if b := s.bucketOf("*", "*"); b != nil && !b.allows(s.Now(), 0) {
		return true
	}
	for _, limit := range []string{c.Action, kindOf(c)} {
		name := limit
		if limit == simclient.Changing {
			name = limit + " " + c.Action
		}
		if b := s.bucketOf(limit, name); b != nil {
			return !b.allows(s.Now(), instancesIn(c))
		}
	}
	return false
}

// bucketOf returns the bucket of a limit, which may have several; nil without such a limit.
func (s *Faults) bucketOf(limit, name string) *bucket {
	found := s.buckets[name]
	i := slices.IndexFunc(s.limits, func(l simclient.Limit) bool { return l.Action == limit })
	if found == nil && i >= 0 {
		found = newBucket(s.limits[i])
		s.buckets[name] = found
	}
	return found
}

// kindOf an action of EC2; "" for other services.
func kindOf(c *wire.Call) string {
	reads := slices.ContainsFunc([]string{"Describe", "Get", "List", "Search"}, func(p string) bool { return strings.HasPrefix(c.Action, p) })
	switch {
	case c.Service != "ec2":
		return ""
	case !reads:
		return simclient.Changing
	case slices.Contains(unfilteredActions, c.Action) && !c.Params.Has("Filter") && !c.Params.Has("MaxResults"):
		return simclient.Unfiltered
	}
	return simclient.Reading
}

// instancesIn counts what a call launches or terminates.
func instancesIn(c *wire.Call) int {
	switch {
	case c.Service != "ec2" || c.Params == nil || c.Params.Bool("DryRun"):
		return 0
	case c.Action == "TerminateInstances":
		return len(c.Params.Strs("InstanceId"))
	case c.Action == "RunInstances":
		n, _ := c.Params.Int("MaxCount", 1)
		return n
	}
	return 0
}
