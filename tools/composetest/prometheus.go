package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"millwright/tools/stack"
)

// rulesMin are fewer than the stack's Prometheus has rules.
const rulesMin = 30

// scraped waits until Prometheus has scraped each service, and evaluated every rule without an error.
func (t *test) scraped(ctx context.Context) error {
	err := t.out.Await(ctx, "Prometheus", func(ctx context.Context) string {
		var targets struct {
			ActiveTargets []struct{ ScrapeURL, Health, LastError string }
		}
		if err := t.project.prometheus(ctx, "targets", &targets); err != nil {
			return err.Error()
		}
		for _, x := range targets.ActiveTargets {
			if x.Health != "up" {
				return fmt.Sprintf("%s is %s: %s", x.ScrapeURL, x.Health, x.LastError)
			}
		}
		if n := len(targets.ActiveTargets); n != len(stack.Services) {
			return fmt.Sprintf("it scrapes %d processes, not %d", n, len(stack.Services))
		}
		return t.project.evaluated(ctx)
	})
	if err == nil {
		t.out.Say("Prometheus scrapes all services and evaluates all rules")
	}
	return err
}

// evaluated says what is wrong with the rules.
func (p *project) evaluated(ctx context.Context) string {
	var found struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	if err := p.prometheus(ctx, "rules", &found); err != nil {
		return err.Error()
	}
	rules := 0
	for _, g := range found.Groups {
		for _, r := range g.Rules {
			if rules++; r.Health != "ok" {
				return fmt.Sprintf("rule %s is %s: %s", r.Name, r.Health, r.LastError)
			}
		}
	}
	if rules < rulesMin {
		return fmt.Sprintf("there are %d rules", rules)
	}
	return ""
}

// prometheus asks its API.
func (p *project) prometheus(ctx context.Context, what string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/api/v1/%s", p.prometheusPort, what), nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer := struct{ Data any }{into}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("ask Prometheus for %s: %s", what, response.Status)
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return fmt.Errorf("ask Prometheus for %s: %w", what, err)
	}
	return nil
}
