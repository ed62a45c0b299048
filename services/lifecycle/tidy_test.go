package lifecycle

import (
	"context"
	"testing"
	"time"
)

type tidied struct{ kept []map[string]bool }

func (t *tidied) CollectTemplates(_ context.Context, keep map[string]bool) error {
	t.kept = append(t.kept, keep)
	return nil
}

func TestTemplatesAreTidiedUpEverySixHours(t *testing.T) {
	templates := &tidied{}
	s := &Service{deps: Deps{Templates: templates}, mem: newMemory()}
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	s.started = start
	if due := s.stepTidy(start); !due.Equal(start.Add(tidyEvery)) {
		t.Errorf("first tidying is due at %v, want %v after the start", due, tidyEvery)
	}
	s.mem.tidied(start.Add(tidyEvery))
	if due := s.stepTidy(start.Add(tidyEvery)); !due.Equal(start.Add(2 * tidyEvery)) {
		t.Errorf("next tidying is due at %v, want %v later", due, tidyEvery)
	}
}
