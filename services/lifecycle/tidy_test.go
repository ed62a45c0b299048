package lifecycle

import (
	"context"
	"testing"
	"time"

	"github.com/aws/smithy-go"

	"millwright/services/internal/ec2"
	"millwright/services/lifecycle/launch"
)

type tidied struct{ scarce []bool }

func (t *tidied) CollectTemplates(_ context.Context, _ map[string]bool, scarce bool) error {
	t.scarce = append(t.scarce, scarce)
	return nil
}

func TestTemplatesAreTidiedUpEveryFewMinutes(t *testing.T) {
	templates := &tidied{}
	s := &Service{deps: Deps{Templates: templates}, mem: newMemory()}
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	s.started = start
	if due := s.stepTidy(start); !due.Equal(start.Add(tidyEvery)) {
		t.Errorf("first tidying is due at %v, want %v after the start", due, tidyEvery)
	}
	s.mem.tidied(start.Add(tidyEvery), false)
	if due := s.stepTidy(start.Add(tidyEvery)); !due.Equal(start.Add(2 * tidyEvery)) {
		t.Errorf("next tidying is due at %v, want %v later", due, tidyEvery)
	}
}

func TestProfilesAreTidiedUpEverySixHours(t *testing.T) {
	m, start := newMemory(), time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(hours int) time.Time { return start.Add(time.Duration(hours) * time.Hour) }
	if m.profilesDue(start, at(5)) || !m.profilesDue(start, at(6)) {
		t.Error("the first time six hours after the start")
	}
	m.tidied(at(6), true)
	m.tidied(at(7), false)
	if m.profilesDue(start, at(11)) || !m.profilesDue(start, at(12)) {
		t.Error("then six hours after the last time")
	}
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

// A launch that EC2 refuses a template for, because there are too many, has unused ones collected at once, and is made then.
func TestALimitOfTemplatesCollectsThemAtOnce(t *testing.T) {
	r := newRig(t)
	templates := &tidied{}
	limited := &limitedLauncher{fakeLauncher: fakeLauncher{r}, limit: true}
	r.svc.deps.Templates, r.svc.deps.Launcher = templates, limited
	name := r.plan()
	r.run("templates collected", func() bool { return len(templates.scarce) > 0 })
	if !templates.scarce[0] || r.now.Sub(r.svc.started) >= tidyEvery {
		t.Errorf("scarce %v, %s after the start", templates.scarce, r.now.Sub(r.svc.started))
	}
	limited.limit = false
	r.run("node ready", r.ready(name))
	if r.svc.mem.scarce() {
		t.Error("still urgent")
	}
}
