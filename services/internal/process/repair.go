package process

import (
	"fmt"
	"os"
	"slices"
	"time"

	"sigs.k8s.io/yaml"

	"millwright/planner"
)

// repairPolicy is an entry of the file of --repair-policies.
type repairPolicy struct {
	Condition  string `json:"condition"`
	Status     string `json:"status"`
	Toleration string `json:"toleration"`
}

// repairPoliciesMax bounds the entries of the file.
const repairPoliciesMax = 100

// readRepairPolicies reads the file, if there is one.
func (s *Settings) readRepairPolicies() error {
	if s.RepairPolicies == "" {
		return nil
	}
	data, err := os.ReadFile(s.RepairPolicies)
	if err != nil {
		return err
	}
	s.repairPolicies, err = parseRepairPolicies(data)
	return err
}

func parseRepairPolicies(data []byte) ([]planner.RepairPolicy, error) {
	var list []repairPolicy
	if err := yaml.UnmarshalStrict(data, &list); err != nil {
		return nil, fmt.Errorf("read repair policies: %w", err)
	}
	if len(list) == 0 || len(list) > repairPoliciesMax {
		return nil, fmt.Errorf("repair policies: %d entries, must be 1 to %d", len(list), repairPoliciesMax)
	}
	var out []planner.RepairPolicy
	for i, p := range list {
		toleration, err := time.ParseDuration(p.Toleration)
		switch {
		case p.Condition == "":
			return nil, fmt.Errorf("repair policy %d has no condition", i+1)
		case !slices.Contains([]string{"True", "False", "Unknown"}, p.Status):
			return nil, fmt.Errorf("repair policy %d (%s): status is True, False or Unknown, in quotes, not %q", i+1, p.Condition, p.Status)
		case err != nil || toleration < time.Minute:
			return nil, fmt.Errorf("repair policy %d (%s): toleration is a duration of at least 1m, not %q", i+1, p.Condition, p.Toleration)
		}
		out = append(out, planner.RepairPolicy{Condition: p.Condition, Status: p.Status, Toleration: toleration})
	}
	return out, nil
}
