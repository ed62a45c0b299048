package nodepool

import (
	"testing"
	"time"

	"millwright/planner/condition"

	karpv1 "millwright/api/karpenter/v1"
)

func TestRegistrationHealth(t *testing.T) {
	ok, lost := Registration{}, Registration{Failed: true, Reason: "RegistrationFailed", Message: "Failed to register node"}
	launch := Registration{Failed: true, Reason: "VCPULimitExceeded", Message: "no more"}
	for sentence, c := range map[string]struct {
		outcomes []Registration
		want     string
	}{
		"nothing yet":                  {nil, "Unknown/AwaitingReconciliation/object is awaiting reconciliation"},
		"one failure proves little":    {[]Registration{lost}, "Unknown/AwaitingReconciliation/object is awaiting reconciliation"},
		"one success":                  {[]Registration{ok}, "True/NodeRegistrationHealthy/"},
		"one of each":                  {[]Registration{ok, lost}, "True/NodeRegistrationHealthy/"},
		"two failures":                 {[]Registration{lost, lost}, "False/RegistrationFailed/Failed to register node"},
		"half of four":                 {[]Registration{lost, ok, lost, ok}, "False/RegistrationFailed/Failed to register node"},
		"the last failure is told":     {[]Registration{lost, launch, ok}, "False/VCPULimitExceeded/no more"},
		"one of four is not too many":  {[]Registration{ok, lost, ok, ok}, "True/NodeRegistrationHealthy/"},
		"all four fail for two causes": {[]Registration{launch, launch, launch, lost}, "False/RegistrationFailed/Failed to register node"},
	} {
		t.Run(sentence, func(t *testing.T) {
			conditions := &condition.List{Generation: 1, Now: time.Unix(0, 0), Root: "Ready"}
			setRegistrationHealthy(conditions, c.outcomes)
			x := condition.Get(conditions.Conditions, karpv1.ConditionTypeNodeRegistrationHealthy)
			if got := string(x.Status) + "/" + x.Reason + "/" + x.Message; got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}
