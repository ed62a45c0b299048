package lifecycle

import (
	"context"
	"testing"
	"time"

	"github.com/aws/smithy-go"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/services/internal/ec2"
	"millwright/services/lifecycle/garbage"
	"millwright/services/lifecycle/launch"
)

type tidied struct{ scarce []bool }

func (t *tidied) CollectTemplates(_ context.Context, _ map[string]bool, scarce bool) error {
	t.scarce = append(t.scarce, scarce)
	return nil
}

// limitedLauncher is refused another launch template while limit is set.
type limitedLauncher struct {
	fakeLauncher
	limit bool
}

func (l *limitedLauncher) Build(ctx context.Context, in launch.Input) (launch.Built, error) {
	if l.limit {
		return launch.Built{}, &ec2.CallError{Action: "ec2:CreateLaunchTemplate", Mutating: true, Err: &smithy.GenericAPIError{Code: "LaunchTemplateLimitExceeded"}}
	}
	return l.fakeLauncher.Build(ctx, in)
}

// When EC2 refuses a launch template because there are too many, unused ones are collected at once, and the
// launch is made then.
func TestALimitOfTemplatesCollectsThemAtOnce(t *testing.T) {
	r := newRig(t)
	templates := &tidied{}
	limited := &limitedLauncher{fakeLauncher: fakeLauncher{r}, limit: true}
	r.with(func(d *Deps) { d.Templates, d.Launcher = templates, limited })
	name := r.plan()
	r.run("templates collected", func() bool { return len(templates.scarce) > 0 })
	if !templates.scarce[0] || r.now.Sub(r.svc.started) >= garbage.TidyEvery {
		t.Errorf("scarce %v, %s after the start", templates.scarce, r.now.Sub(r.svc.started))
	}
	limited.limit = false
	r.run("node ready", r.ready(name))
	r.now = r.now.Add(garbage.TidyEvery)
	times := len(templates.scarce)
	r.run("tidied up again", func() bool { return len(templates.scarce) > times })
	if templates.scarce[len(templates.scarce)-1] {
		t.Error("still urgent")
	}
}

// refusedProfiles counts how often IAM has refused to list instance profiles.
type refusedProfiles struct{ asked int }

func (p *refusedProfiles) CollectProfiles(context.Context, []*awsv1.EC2NodeClass, []*karpv1.NodeClaim) error {
	p.asked++
	return apiError("AccessDenied")
}

// Without rights to instance profiles launch templates are tidied up as ever, and IAM is not asked all the
// time.
func TestProfilesThatMayNotBeListedHoldUpNothing(t *testing.T) {
	r := newRig(t)
	templates, profiles := &tidied{}, &refusedProfiles{}
	r.with(func(d *Deps) { d.Templates, d.Profiles = templates, profiles })
	r.wait(time.Second)
	r.now = r.now.Add(7 * time.Hour)
	r.run("profiles asked for", func() bool { return profiles.asked > 0 })
	r.wait(5 * time.Minute)
	if profiles.asked != 1 {
		t.Errorf("IAM was asked %d times in five minutes", profiles.asked)
	}
	if n := len(templates.scarce); n != 1 {
		t.Errorf("templates were tidied up %d times in five minutes", n)
	}
}
