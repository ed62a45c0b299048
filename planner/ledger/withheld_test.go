package ledger

import (
	"errors"
	"testing"
)

// TestWithheldKindsAreUnknown: what the linker withholds is refused as an older program refuses it.
func TestWithheldKindsAreUnknown(t *testing.T) {
	defer func(before string) { withheld = before }(withheld)
	withheld = "20,40-43"
	if KnownKinds().Has(KindClaimCreated) || KnownKinds().Has(KindDrainEnded) || !KnownKinds().Has(KindLaunchRequested) {
		t.Errorf("knows %s", KnownKinds())
	}
	l := New("")
	if err := l.Apply(Entry{Seq: 1, Kind: KindClaimCreated, Payload: &ClaimCreated{}}); !errors.Is(err, ErrUnknownKind) {
		t.Errorf("applied: %v", err)
	}
}
