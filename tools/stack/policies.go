package stack

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"millwright/deploy/iam"
)

// accountID of the simulated account.
const accountID = "111122223333"

// writePolicies writes the IAM policies that users are given, by access key, and returns the simulator's
// flags that have it enforce them; none if that is not asked for.
func (s *Stack) writePolicies() ([]string, error) {
	if !s.opts.Policies {
		return nil, nil
	}
	documents := map[string]iam.Document{}
	for _, service := range append([]string{iam.All}, iam.Services...) {
		d, err := iam.Policy(service, iam.Account{Cluster: ClusterName, Region: Region, Account: accountID})
		if err != nil {
			return nil, fmt.Errorf("make policy: %w", err)
		}
		documents[service] = d
	}
	data, err := json.Marshal(documents)
	if err != nil {
		return nil, fmt.Errorf("make policies: %w", err)
	}
	file := filepath.Join(s.opts.Dir, "policies.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return nil, fmt.Errorf("write policies: %w", err)
	}
	return []string{"--policies", file, "--account-id", accountID}, nil
}
