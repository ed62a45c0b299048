package conversion_test

import (
	"context"
	"fmt"

	"millwright/api/conversion"
)

// A NodePool of v1beta1 expires by its disruption block; in v1 that is a matter of its template.
func ExampleConverter_Convert() {
	old := conversion.Object{
		"apiVersion": "karpenter.sh/v1beta1", "kind": "NodePool", "metadata": conversion.Object{"name": "default"},
		"spec": conversion.Object{
			"disruption": conversion.Object{"consolidationPolicy": "WhenUnderutilized", "expireAfter": "720h"},
			"template":   conversion.Object{"spec": conversion.Object{"nodeClassRef": conversion.Object{"name": "default"}}},
		},
	}
	out, lost, err := conversion.Converter{}.Convert(context.Background(), old, "karpenter.sh/v1")
	fmt.Println(conversion.Name(out), conversion.Field(out, "spec", "template", "spec", "expireAfter"), len(lost), err)
	// Output: NodePool default 720h 0 <nil>
}
