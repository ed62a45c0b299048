package lifecycle

import (
	"context"
	"testing"

	"github.com/aws/smithy-go"

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
