package main

import (
	"slices"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Patterns of the values in the kubelet's maps. Grace periods have none: wherever Karpenter's schema
// is too lax, objects it accepted must stay updatable, and validation reports what is wrong with them.
const (
	quantity = `(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?`
	percent  = `([0-9]{1,2}(\.[0-9]+)?|100(\.0+)?)%`
	// threshold may be empty.
	threshold = percent + "||" + quantity
)

// finishKubelet bounds the values of the kubelet's maps; parent is the path of the object that has the
// kubelet field.
func finishKubelet(root *apiextv1.JSONSchemaProps, parent ...string) error {
	for field, pattern := range map[string]string{
		"systemReserved": quantity, "kubeReserved": quantity,
		"evictionHard": threshold, "evictionSoft": threshold,
	} {
		err := edit(root, slices.Concat(parent, []string{"kubelet", field}), func(p *apiextv1.JSONSchemaProps) {
			p.AdditionalProperties.Schema.Pattern = "^(" + pattern + ")$"
		})
		if err != nil {
			return err
		}
	}
	return nil
}
