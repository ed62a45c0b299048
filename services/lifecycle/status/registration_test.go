package status

import (
	"testing"
	"time"

	"millwright/planner/condition"

	karpv1 "millwright/api/karpenter/v1"
)

func TestJudgeRegistration(t *testing.T) {
	ok, lost := registration{}, registration{failed: true, reason: "RegistrationFailed", message: "Failed to register node"}
	launch := registration{failed: true, reason: "VCPULimitExceeded", message: "no more"}
	for sentence, c := range map[string]struct {
		outcomes []registration
		want     string
	}{
		"nothing yet":                  {nil, "Unknown/AwaitingReconciliation/object is awaiting reconciliation"},
		"one failure proves little":    {[]registration{lost}, "Unknown/AwaitingReconciliation/object is awaiting reconciliation"},
		"one success":                  {[]registration{ok}, "True/NodeRegistrationHealthy/"},
		"one of each":                  {[]registration{ok, lost}, "True/NodeRegistrationHealthy/"},
		"two failures":                 {[]registration{lost, lost}, "False/RegistrationFailed/Failed to register node"},
		"half of four":                 {[]registration{lost, ok, lost, ok}, "False/RegistrationFailed/Failed to register node"},
		"the last failure is told":     {[]registration{lost, launch, ok}, "False/VCPULimitExceeded/no more"},
		"one of four is not too many":  {[]registration{ok, lost, ok, ok}, "True/NodeRegistrationHealthy/"},
		"all four fail for two causes": {[]registration{launch, launch, launch, lost}, "False/RegistrationFailed/Failed to register node"},
	} {
		t.Run(sentence, func(t *testing.T) {
			conditions := &condition.List{Generation: 1, Now: time.Unix(0, 0), Root: "Ready"}
			judgeRegistration(conditions, c.outcomes)
			x := condition.Get(conditions.Conditions, karpv1.ConditionTypeNodeRegistrationHealthy)
			if got := string(x.Status) + "/" + x.Reason + "/" + x.Message; got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}
