package launch

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/smithy-go"

	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/services/internal/ec2"
	"millwright/services/lifecycle/nodeclass"
	"millwright/tools/ec2sim/simclient"
)

// fakeDryRuns answers RunInstances by subnet, and CreateFleet.
type fakeDryRuns struct {
	fleet   error
	subnets map[string]error
	// wet: it knows no dry runs.
	wet   bool
	asked []string
}

func answer(action, code, message string) error {
	return &ec2.CallError{Action: "ec2:" + action, Err: &smithy.GenericAPIError{Code: code, Message: message}}
}

func yes(action string) error { return answer(action, "DryRunOperation", "would have succeeded") }
func no(action string) error {
	return answer(action, "UnauthorizedOperation", "You are not authorized to perform this operation.")
}

func (f *fakeDryRuns) DryRunFleet(_ context.Context, in *awsec2.CreateFleetInput) error {
	f.asked = append(f.asked, "fleet")
	if f.fleet != nil || f.wet {
		return f.fleet
	}
	return yes("CreateFleet")
}

func (f *fakeDryRuns) DryRunInstances(_ context.Context, in *awsec2.RunInstancesInput) error {
	subnet := aws.ToString(in.NetworkInterfaces[0].SubnetId)
	f.asked = append(f.asked, subnet)
	if err := f.subnets[subnet]; err != nil || f.wet {
		return err
	}
	return yes("RunInstances")
}

// The rules: ec2 §3.5.
func TestAuthorize(t *testing.T) {
	throttled := answer("CreateFleet", "RequestLimitExceeded", "slow down")
	fresh := answer("RunInstances", "InvalidParameterValue", "Value (blue_1) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name")
	all := func(err error) map[string]error {
		return map[string]error{"subnet-b2": err, "subnet-b1": err, "subnet-a": err}
	}
	for sentence, c := range map[string]struct {
		change   func(*awsv1.EC2NodeClass, *bench)
		dry      fakeDryRuns
		reason   string // of the refusal
		again    bool   // an error that says nothing
		askedFor string
	}{
		"everything is allowed":         {askedFor: "fleet subnet-b2"},
		"EC2 knows no dry runs":         {dry: fakeDryRuns{wet: true}, askedFor: "fleet subnet-b2"},
		"no fleets":                     {dry: fakeDryRuns{fleet: no("CreateFleet")}, reason: "CreateFleetAuthCheckFailed", askedFor: "fleet"},
		"no templates":                  {change: func(_ *awsv1.EC2NodeClass, b *bench) { b.templates.err = no("CreateLaunchTemplate") }, reason: "CreateLaunchTemplateAuthCheckFailed"},
		"no instances":                  {dry: fakeDryRuns{subnets: all(no("RunInstances"))}, reason: "RunInstancesAuthCheckFailed", askedFor: "fleet subnet-b2 subnet-b1 subnet-a"},
		"one subnet is enough":          {dry: fakeDryRuns{subnets: map[string]error{"subnet-b2": no("RunInstances")}}, askedFor: "fleet subnet-b2 subnet-b1"},
		"EC2 is busy":                   {dry: fakeDryRuns{fleet: throttled}, again: true, askedFor: "fleet"},
		"credentials that have expired": {dry: fakeDryRuns{fleet: answer("CreateFleet", "RequestExpired", "Request has expired.")}, again: true, askedFor: "fleet"},
		"credentials that are not known": {dry: fakeDryRuns{subnets: all(answer("RunInstances", "AuthFailure", "AWS was not able to validate the provided access credentials"))},
			again: true, askedFor: "fleet subnet-b2 subnet-b1 subnet-a"},
		"an image of others":          {dry: fakeDryRuns{subnets: all(answer("RunInstances", "AuthFailure", "Not authorized for images: [ami-1]"))}, askedFor: "fleet subnet-b2"},
		"a template is not answered":  {change: func(_ *awsv1.EC2NodeClass, b *bench) { b.templates.err = errors.New("connection reset") }, again: true},
		"a profile made just now":     {dry: fakeDryRuns{subnets: all(fresh)}, again: true, askedFor: "fleet subnet-b2 subnet-b1 subnet-a"},
		"a type that is not had here": {dry: fakeDryRuns{fleet: answer("CreateFleet", "Unsupported", "m5.large is not supported")}, askedFor: "fleet subnet-b2"},
		"a profile that the user named and nobody made": {
			change: func(nc *awsv1.EC2NodeClass, _ *bench) { nc.Spec.Role, nc.Spec.InstanceProfile = "", ptr("blue_1") },
			dry:    fakeDryRuns{subnets: all(fresh)}, reason: "InstanceProfileNotFound", askedFor: "fleet subnet-b2 subnet-b1 subnet-a"},
		"user data that is too long with ours": {
			change: func(nc *awsv1.EC2NodeClass, _ *bench) {
				nc.Spec.UserData = ptr("#!/bin/sh\n#" + noise(24<<10))
			}, reason: "UserDataSizeLimitExceeded"},
	} {
		t.Run(sentence, func(t *testing.T) {
			b, nc := newBench(t), readyClass(awsv1.AMIFamilyAL2023)
			if c.change != nil {
				c.change(nc, b)
			}
			b.cfg.DryRun = &c.dry
			err := b.Authorize(context.Background(), nc)
			refusal, refused := errors.AsType[*nodeclass.Refusal](err)
			switch {
			case c.reason == "" && !c.again && err != nil, c.again && (err == nil || refused):
				t.Fatalf("error %v", err)
			case c.reason != "" && (!refused || refusal.Reason != c.reason):
				t.Fatalf("error %v, want %s", err, c.reason)
			}
			if got := strings.Join(c.dry.asked, " "); got != c.askedFor {
				t.Errorf("asked for %q, want %q", got, c.askedFor)
			}
		})
	}
}

// TestAuthorizeInSimulatedAccount: the requests are ones that EC2 takes, a new instance profile is waited
// for, and a permission that is taken away shows in the condition until it is given back.
func TestAuthorizeInSimulatedAccount(t *testing.T) {
	ctx, a := context.Background(), newAccount(t)
	a.builder.cfg.DryRun = a.cloud
	control := httptest.NewServer(a.sim)
	defer control.Close()
	aws := simclient.New(control.URL)
	nc := a.class(t, "al2023@latest")
	if err := a.builder.Authorize(ctx, nc); err != nil {
		a.now = a.now.Add(time.Duration(a.sim.Settings().IAM))
		if err = a.builder.Authorize(ctx, nc); err != nil {
			t.Fatal(err)
		}
	}
	for action, reason := range map[string]string{"CreateFleet": "CreateFleetAuthCheckFailed", "RunInstances": "RunInstancesAuthCheckFailed"} {
		fault, err := aws.AddFault(ctx, simclient.Fault{Action: action, Service: "ec2", Code: "UnauthorizedOperation", Message: "You are not authorized to perform this operation.", Status: 403})
		if err != nil {
			t.Fatal(err)
		}
		refusal, ok := errors.AsType[*nodeclass.Refusal](a.builder.Authorize(ctx, nc))
		if !ok || refusal.Reason != reason || !strings.HasPrefix(refusal.Message, "Controller isn't authorized to call ec2:"+action+": Denied: ") {
			t.Errorf("%s: %v", action, refusal)
		}
		if err := aws.ClearFault(ctx, fault.ID); err != nil {
			t.Fatal(err)
		}
		if err := a.builder.Authorize(ctx, nc); err != nil {
			t.Errorf("%s: still refused: %v", action, err)
		}
	}
	if launched := a.sim.Instances(); len(launched) > 0 {
		t.Errorf("%d instances were launched", len(launched))
	}
}
