package providerid_test

import (
	"fmt"

	"millwright/planner/providerid"
)

func ExampleParse() {
	fmt.Println(providerid.Parse("aws:///us-west-2a/i-0123456789abcdef0"))
	_, _, err := providerid.Parse("kind://node")
	fmt.Println(err)
	// Output:
	// us-west-2a i-0123456789abcdef0 <nil>
	// parse provider id "kind://node": want aws:///<zone>/<instance id>
}
