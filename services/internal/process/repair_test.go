package process

import (
	"strings"
	"testing"
	"time"

	"millwright/planner"
)

func TestRepairPoliciesAreReadStrictly(t *testing.T) {
	got, err := parseRepairPolicies([]byte("- {condition: Ready, status: \"False\", toleration: 5m}\n- {condition: KernelReady, status: Unknown, toleration: 1h}\n"))
	if err != nil || len(got) != 2 || got[0] != (planner.RepairPolicy{Condition: "Ready", Status: "False", Toleration: 5 * time.Minute}) {
		t.Fatalf("got %v, %v", got, err)
	}
	for text, want := range map[string]string{
		"": "0 entries", "{}": "read", "- {condition: Ready, status: False, toleration: 5m}": "in quotes", "- {status: \"True\", toleration: 5m}": "no condition",
		"- {condition: Ready, status: No, toleration: 5m}": "", "- {condition: Ready, status: \"False\", toleration: 5s}": "at least 1m",
		"- {condition: Ready, status: \"False\", tolerate: 5m}": "tolerate", "- {condition: Ready, status: Maybe, toleration: 5m}": "True, False or Unknown",
	} {
		if _, err := parseRepairPolicies([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
