package main

import (
	"fmt"
	"slices"
	"strings"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

const (
	qualifiedName = `^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$`
	labelValue    = `^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$`
)

// allowedAWSLabels are the keys of the restricted domain karpenter.k8s.aws that users may ask for.
var allowedAWSLabels = []string{
	"ec2nodeclass", "instance-encryption-in-transit-supported", "instance-category", "instance-hypervisor",
	"instance-family", "instance-generation", "instance-local-nvme", "instance-size", "instance-cpu",
	"instance-cpu-manufacturer", "instance-cpu-sustained-clock-speed-mhz", "instance-memory",
	"instance-ebs-bandwidth", "instance-network-bandwidth", "instance-gpu-name", "instance-gpu-manufacturer",
	"instance-gpu-count", "instance-gpu-memory", "instance-accelerator-name",
	"instance-accelerator-manufacturer", "instance-accelerator-count", "instance-capability-flex",
	"instance-tenancy", "capacity-reservation-id", "capacity-reservation-type",
	"capacity-reservation-interruptible", "placement-group-id", "placement-group-partition",
}

// keyRules are the rules on label keys; %s is how the rule reaches a key. On requirements that is the
// string itself; on a label map each key in turn.
func keyRules(nodePool bool) []struct{ message, rule string } {
	aws := make([]string, len(allowedAWSLabels))
	for i, l := range allowedAWSLabels {
		aws[i] = fmt.Sprintf("%q", "karpenter.k8s.aws/"+l)
	}
	rules := []struct{ message, rule string }{
		{`label domain "karpenter.sh" is restricted`, `KEY in ["karpenter.sh/capacity-type", "karpenter.sh/nodepool"] || !KEY.find("^([^/]+)").endsWith("karpenter.sh")`},
	}
	if nodePool {
		rules = append(rules, struct{ message, rule string }{`label "karpenter.sh/nodepool" is restricted`, `KEY != "karpenter.sh/nodepool"`})
	}
	return append(rules, []struct{ message, rule string }{
		{`label "kubernetes.io/hostname" is restricted`, `KEY != "kubernetes.io/hostname"`},
		{`label domain "karpenter.k8s.aws" is restricted`, `KEY in [` + strings.Join(aws, ", ") + `] || !KEY.find("^([^/]+)").endsWith("karpenter.k8s.aws")`},
	}...)
}

func finishNodePool(root *apiextv1.JSONSchemaProps, beta bool) error {
	template, err := at(root, "spec", "template")
	if err != nil {
		return err
	}
	if err := finishLabels(template); err != nil {
		return err
	}
	spec, err := at(template, "spec")
	if err != nil {
		return err
	}
	if err := finishTemplateSpec(spec, true); err != nil || !beta {
		return err
	}
	if err := edit(root, []string{"spec", "template", "spec", "resources"}, func(p *apiextv1.JSONSchemaProps) { p.MaxProperties = ptr(int64(0)) }); err != nil {
		return err
	}
	return finishKubelet(root, "spec", "template", "spec")
}

func finishNodeClaim(root *apiextv1.JSONSchemaProps, beta bool) error {
	spec, err := at(root, "spec")
	if err != nil {
		return err
	}
	if err := finishTemplateSpec(spec, false); err != nil {
		return err
	}
	if err := relaxConditions(root); err != nil || !beta {
		return err
	}
	return finishKubelet(root, "spec")
}

// overlayNot are prefixes of the AWS keys that a NodeOverlay may not ask for, though others may.
var overlayNot = []string{"instance-tenancy", "capacity-reservation-", "placement-group-"}

// finishNodeOverlay bounds requirement keys and operators.
func finishNodeOverlay(root *apiextv1.JSONSchemaProps) error {
	requirement := []string{"spec", "requirements", "[]"}
	if err := edit(root, append(requirement, "key"), func(p *apiextv1.JSONSchemaProps) {
		p.MaxLength, p.Pattern = ptr(int64(316)), qualifiedName
		for _, r := range keyRules(false) {
			rule := r.rule
			for _, l := range allowedAWSLabels {
				if slices.ContainsFunc(overlayNot, func(prefix string) bool { return strings.HasPrefix(l, prefix) }) {
					rule = strings.ReplaceAll(rule, fmt.Sprintf(", %q", "karpenter.k8s.aws/"+l), "")
				}
			}
			p.XValidations = append(p.XValidations, apiextv1.ValidationRule{Message: r.message, Rule: strings.ReplaceAll(rule, "KEY", "self")})
		}
	}); err != nil {
		return err
	}
	return edit(root, append(requirement, "operator"), func(p *apiextv1.JSONSchemaProps) {
		for _, o := range []string{"Gte", "Lte", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"} {
			p.Enum = append(p.Enum, apiextv1.JSON{Raw: []byte(`"` + o + `"`)})
		}
	})
}

// finishLabels bounds the template's label keys and values.
func finishLabels(template *apiextv1.JSONSchemaProps) error {
	return edit(template, []string{"metadata", "labels"}, func(p *apiextv1.JSONSchemaProps) {
		p.AdditionalProperties = &apiextv1.JSONSchemaPropsOrBool{Allows: true, Schema: &apiextv1.JSONSchemaProps{
			Type: "string", MaxLength: ptr(int64(63)), Pattern: labelValue,
		}}
		for _, r := range keyRules(true) {
			p.XValidations = append(p.XValidations, apiextv1.ValidationRule{
				Message: r.message, Rule: "self.all(x, " + strings.ReplaceAll(r.rule, "KEY", "x") + ")",
			})
		}
	})
}

// finishTemplateSpec bounds requirement keys and taints.
func finishTemplateSpec(spec *apiextv1.JSONSchemaProps, nodePool bool) error {
	if err := edit(spec, []string{"requirements", "[]", "key"}, func(p *apiextv1.JSONSchemaProps) {
		for _, r := range keyRules(nodePool) {
			p.XValidations = append(p.XValidations, apiextv1.ValidationRule{Message: r.message, Rule: strings.ReplaceAll(r.rule, "KEY", "self")})
		}
	}); err != nil {
		return err
	}
	for _, list := range []string{"taints", "startupTaints"} {
		if err := finishTaints(spec, list); err != nil {
			return err
		}
	}
	return nil
}

func finishTaints(spec *apiextv1.JSONSchemaProps, list string) error {
	return edit(spec, []string{list, "[]"}, func(taint *apiextv1.JSONSchemaProps) {
		set := func(name string, change func(*apiextv1.JSONSchemaProps)) {
			p := taint.Properties[name]
			change(&p)
			taint.Properties[name] = p
		}
		set("key", func(p *apiextv1.JSONSchemaProps) { p.MinLength, p.Pattern = ptr(int64(1)), qualifiedName })
		set("value", func(p *apiextv1.JSONSchemaProps) { p.Pattern = qualifiedName })
		set("effect", func(p *apiextv1.JSONSchemaProps) {
			for _, e := range []string{"NoSchedule", "PreferNoSchedule", "NoExecute"} {
				p.Enum = append(p.Enum, apiextv1.JSON{Raw: []byte(`"` + e + `"`)})
			}
		})
	})
}

// relaxConditions: conditions of NodeClaims need no reason or message, as those of Karpenter do not.
func relaxConditions(root *apiextv1.JSONSchemaProps) error {
	return edit(root, []string{"status", "conditions", "[]"}, func(c *apiextv1.JSONSchemaProps) {
		c.Required = []string{"lastTransitionTime", "status", "type"}
		reason := c.Properties["reason"]
		reason.MinLength = nil
		reason.Pattern = `^([A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?|)$`
		c.Properties["reason"] = reason
	})
}

// at returns a copy of the schema at a path of property names.
func at(root *apiextv1.JSONSchemaProps, path ...string) (*apiextv1.JSONSchemaProps, error) {
	p, ok := root.Properties[path[0]]
	if !ok {
		return nil, fmt.Errorf("find property %s: not in the schema", path[0])
	}
	if len(path) == 1 {
		return &p, nil
	}
	return at(&p, path[1:]...)
}

// edit changes the schema at a path of property names; "[]" steps into a list's items. Maps hold schemas by
// value but share what those point to, so every step writes back.
func edit(root *apiextv1.JSONSchemaProps, path []string, change func(*apiextv1.JSONSchemaProps)) error {
	if len(path) == 0 {
		change(root)
		return nil
	}
	if path[0] == "[]" {
		if root.Items == nil || root.Items.Schema == nil {
			return fmt.Errorf("find items: not a list")
		}
		return edit(root.Items.Schema, path[1:], change)
	}
	p, ok := root.Properties[path[0]]
	if !ok {
		return fmt.Errorf("find property %s: not in the schema", path[0])
	}
	if err := edit(&p, path[1:], change); err != nil {
		return err
	}
	root.Properties[path[0]] = p
	return nil
}

func ptr[T any](v T) *T { return &v }
