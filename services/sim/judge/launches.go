package judge

import (
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/ledger"
	"millwright/services/sim/cloud"
)

// checkContent demands that a NodeClaim that is recorded is made of what counts as planned from here on.
func (s *Judge) checkContent(p *ledger.ClaimCreated) {
	o, c := s.Cluster.NodeClaim(p.Claim), s.book.claims[p.Claim]
	if o == nil || o.UID != p.UID || c == nil || c.content() == nil {
		return
	}
	planned := c.content()
	want, have := planned.planned.Requests.MilliCPU, o.Spec.Resources.Requests.Cpu().MilliValue()
	types := 0
	for _, r := range o.Spec.Requirements {
		if r.Key == corev1.LabelInstanceTypeStable {
			types = len(r.Values)
		}
	}
	if want != have || types != len(planned.planned.InstanceTypes) {
		s.Violate(CheckContent, "%s is made of %s, with %dm CPU and %d types; of record %d are %dm and %d", p.Claim, o.Annotations[karpv1.RecordAnnotationKey],
			have, types, planned.seq, want, len(planned.planned.InstanceTypes))
	}
}

// CheckRequest demands that what EC2 is asked for is recorded.
func (s *Judge) CheckRequest(in *awsec2.CreateFleetInput) {
	if token := aws.ToString(in.ClientToken); !s.history.tokens[token] {
		s.Violate(CheckRecorded, "a fleet is asked for with token %s, of no LaunchRequested", token)
	}
}

// CheckLaunch looks at an instance that has just been made.
func (s *Judge) CheckLaunch(i *cloud.Instance) {
	tag := i.Tags[awsv1.TagLaunch]
	_, rest, _ := strings.Cut(tag, "/")
	uid, _, _ := strings.Cut(rest, "/")
	name := i.Tags[awsv1.TagNodeClaim]
	if members, of := s.history.fleets[tag]; of {
		if len(members) == 0 {
			s.Violate(CheckOneInstance, "fleet %s has launched one instance more than it has claims: %s", tag, i.ID)
			return
		}
		name, uid, s.history.fleets[tag] = members[0].Claim, string(members[0].UID), members[1:]
	}
	if first := s.history.launched[uid]; first != "" {
		s.Violate(CheckOneInstance, "NodeClaim %s (%s) has %s and %s", name, uid, first, i.ID)
	}
	s.history.launched[uid], s.history.owner[i.ID] = i.ID, name
	if c := s.Cluster.NodeClaim(name); (c == nil || string(c.UID) != uid) && !s.Deeds.Stripped[uid] {
		s.Violate(CheckLivingClaim, "instance %s is for NodeClaim %s (%s)", i.ID, name, uid)
	}
}

// openFleet notes whose instances come of a request for several claims, in this order.
func (h *history) openFleet(logID string, p *ledger.LaunchRequested) {
	members := append([]ledger.FleetMember{{Claim: p.Claim, UID: p.UID, Attempt: p.Attempt}}, p.Others...)
	h.fleets[fmt.Sprintf("%s/%s/%d", logID, p.UID, p.Attempt)] = members
}

// checkAnswered demands that each instance is recorded for the claim that it was launched for, and that no
// claim counts as failed that has one.
func (s *Judge) checkAnswered(p *ledger.FleetAnswered) {
	for i := range p.Launched {
		if l := &p.Launched[i]; s.history.launched[string(l.UID)] != l.InstanceID {
			s.Violate(CheckOneInstance, "NodeClaim %s has %s, and %s is recorded", l.Claim, s.history.launched[string(l.UID)], l.InstanceID)
		}
	}
	for i := range p.Failed {
		s.Stats.FleetsShort++
		if f := &p.Failed[i]; s.history.launched[string(f.UID)] != "" {
			s.Violate(CheckOneInstance, "NodeClaim %s has %s, and its launch is recorded as failed", f.Claim, s.history.launched[string(f.UID)])
		}
	}
}
