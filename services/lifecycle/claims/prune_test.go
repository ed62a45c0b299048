package claims

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/catalog"
	"millwright/planner/claim"
	"millwright/services/internal/backoff"
	"millwright/services/lifecycle/recent"
)

func TestNothingIsRememberedOfObjectsThatAreGone(t *testing.T) {
	m := newMemory(backoff.New(time.Second, time.Minute), recent.NewObjects[*karpv1.NodeClaim]())
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 50 {
		name := fmt.Sprint("gone-", i)
		if i == 0 {
			name = "stays"
		}
		m.rememberCatalogue(&karpv1.NodeClassReference{Name: name}, &catalog.Catalog{NodeClass: name})
		m.setFailure(types.UID(name), &claim.Failure{})
		m.setSought(types.UID(name))
		m.setMarks(name, claim.Marks{})
		m.settleVersions(name, "v")
		m.settleVersions("shadow/"+name, "v")
		m.lookingSince("tag-"+name, now)
	}
	if m.len() != 50*7 {
		t.Fatalf("%d things are remembered", m.len())
	}
	there := map[string]bool{"stays": true}
	m.prune(there, map[types.UID]bool{"stays": true}, there, now.Add(SearchedFor+1))
	if m.len() != 6 || m.catalogue(&karpv1.NodeClassReference{Name: "stays"}) == nil {
		t.Errorf("%d things are remembered of what is there", m.len())
	}
}
