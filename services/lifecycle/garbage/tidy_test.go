package garbage

import (
	"context"
	"testing"
	"time"

	"millwright/services/lifecycle/effects"
)

type tidied struct{}

func (*tidied) CollectTemplates(context.Context, map[string]bool, bool) error { return nil }

func TestTemplatesAreTidiedUpEveryFewMinutes(t *testing.T) {
	g := &Collector{deps: Deps{Templates: &tidied{}}, effects: effects.New(nil)}
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	g.Begin(start)
	if due := g.StepTidy(start); !due.Equal(start.Add(TidyEvery)) {
		t.Errorf("first tidying is due at %v, want %v after the start", due, TidyEvery)
	}
	g.tidying.templatesTidied(start.Add(TidyEvery))
	if due := g.StepTidy(start.Add(TidyEvery)); !due.Equal(start.Add(2 * TidyEvery)) {
		t.Errorf("next tidying is due at %v, want %v later", due, TidyEvery)
	}
}

func TestProfilesAreTidiedUpEverySixHours(t *testing.T) {
	m, start := &tidying{}, time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(hours int) time.Time { return start.Add(time.Duration(hours) * time.Hour) }
	if m.profilesDue(start, at(5)) || !m.profilesDue(start, at(6)) {
		t.Error("the first time six hours after the start")
	}
	m.profilesAsked(at(6))
	m.templatesTidied(at(7))
	if m.profilesDue(start, at(11)) || !m.profilesDue(start, at(12)) {
		t.Error("then six hours after the last time")
	}
}
