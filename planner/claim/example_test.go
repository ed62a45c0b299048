package claim_test

import (
	"errors"
	"fmt"

	"millwright/planner/claim"
)

// A move leads from one state to the next; one that does not start there is illegal.
func ExampleApply() {
	next, err := claim.Apply(claim.Planned, claim.Create)
	fmt.Println(next, err)

	_, err = claim.Apply(claim.Planned, claim.Terminate)
	fmt.Println("illegal:", errors.Is(err, claim.ErrIllegal))
	// Output:
	// Created <nil>
	// illegal: true
}
