package sim

import (
	"context"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"

	"millwright/services/internal/ec2"
	"millwright/services/lifecycle"
	"millwright/services/sim/cloud"
)

// ec2Client is one process's way to EC2.
type ec2Client struct{ p *process }

var _ lifecycle.EC2 = ec2Client{}

func (e ec2Client) do(ctx context.Context, action string, mutating bool, act func() error) error {
	var err error
	arrives := func() {
		if err = e.p.sim.starved.refusal(e.p.sim, action); err == nil {
			err = act()
		}
	}
	if lost := e.p.call(ctx, toEC2, action, cloud.Throttled(action), arrives); lost != nil {
		if ec2.Classify(lost) == ec2.Transient { // throttled
			return lost
		}
		return cloud.Unanswered(action, mutating)
	}
	return err
}

func (e ec2Client) CreateFleet(ctx context.Context, in *awsec2.CreateFleetInput) (out ec2.FleetResult, err error) {
	err = e.do(ctx, "ec2:CreateFleet", true, func() (err error) {
		e.p.sim.judge.CheckRequest(in)
		out, err = e.p.sim.Cloud.CreateFleet(in)
		return err
	})
	if err != nil {
		return ec2.FleetResult{}, err
	}
	if w := e.p.sim.witness; w != nil { // nobody knows of an answer that is lost
		w.Answered(in, out)
	}
	return out, nil
}

func (e ec2Client) DescribeInstances(ctx context.Context, ids []string) (out []ec2.Instance, err error) {
	err = e.do(ctx, "ec2:DescribeInstances", false, func() (err error) {
		out, err = e.p.sim.Cloud.DescribeInstances(ids)
		return err
	})
	return kept(out, err)
}

func (e ec2Client) DescribeInstancesByTags(ctx context.Context, tags map[string]string, states ...string) (out []ec2.Instance, err error) {
	err = e.do(ctx, "ec2:DescribeInstances", false, func() (err error) {
		out, err = e.p.sim.Cloud.DescribeInstancesByTags(tags, states...)
		return err
	})
	return kept(out, err)
}

func (e ec2Client) TerminateInstances(ctx context.Context, ids []string) error {
	return e.do(ctx, "ec2:TerminateInstances", true, func() error {
		e.p.sim.judge.CheckTermination(e.p, ids)
		return e.p.sim.Cloud.TerminateInstances(ids)
	})
}

func (e ec2Client) CreateTags(ctx context.Context, resource string, tags map[string]string) error {
	return e.do(ctx, "ec2:CreateTags", true, func() error { return e.p.sim.Cloud.CreateTags(resource, tags) })
}

// kept drops what a lost answer said.
func kept(out []ec2.Instance, err error) ([]ec2.Instance, error) {
	if err != nil {
		return nil, err
	}
	return out, nil
}
