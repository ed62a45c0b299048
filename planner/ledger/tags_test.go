package ledger

import (
	"testing"

	"millwright/tools/archtest/jsontags"
)

// TestCheckpointsNameTheirKeys, also those of earlier programs: what they hold as JSON names each key in a
// tag.
func TestCheckpointsNameTheirKeys(t *testing.T) {
	for _, field := range jsontags.Missing(plainState{}, backoff{}, reservation{}) {
		t.Errorf("%s has no key in a json tag", field)
	}
}
