package convert

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"millwright/api/conversion"
)

// Older names of the kinds, and of what they are now.
var older = map[string]func(*run, *item) error{
	"karpenter.sh/v1alpha5 Provisioner":          (*run).provisioner,
	"karpenter.sh/v1alpha5 Machine":              (*run).machine,
	"karpenter.sh/v1beta1 Machine":               (*run).machine,
	"karpenter.k8s.aws/v1alpha1 AWSNodeTemplate": (*run).nodeTemplate,
	"compute.k8s.aws/v1beta1 NodeTemplate":       (*run).nodeTemplate,
	"compute.k8s.aws/v1beta1 EC2NodeClass":       (*run).nodeTemplate,
	"karpenter.sh/v1beta1 NodePool":              (*run).draftPool,
}

func key(o conversion.Object) string {
	v, _ := o["apiVersion"].(string)
	k, _ := o["kind"].(string)
	return v + " " + k
}

// concerns: the object is of a group that is converted. Kinds of these groups that exist in v1alpha1 only
// pass untouched.
func concerns(o conversion.Object) bool {
	if older[key(o)] != nil {
		return true
	}
	group, version, _ := strings.Cut(strings.Fields(key(o) + " -")[0], "/")
	kind, _ := o["kind"].(string)
	switch group {
	case "karpenter.sh":
		return version != "v1alpha1" || kind == "NodePool" || kind == "NodeClaim"
	case "karpenter.k8s.aws", "compute.k8s.aws":
		return true
	}
	return false
}

// modernize brings an object of an earlier version to v1beta1; v1beta1 and v1 stay.
func (r *run) modernize(i *item) error {
	i.new = copyOf(i.old)
	if convert := older[key(i.old)]; convert != nil {
		if err := convert(r, i); err != nil {
			return err
		}
	}
	renameMeta(i.new)
	return nil
}

// fields are the spec of an object; taking them one by one shows what is left.
type fields struct {
	spec conversion.Object
	err  error
}

func specOf(o conversion.Object) *fields {
	spec, ok := o["spec"].(conversion.Object)
	if !ok && o["spec"] != nil {
		return &fields{spec: conversion.Object{}, err: errors.New("spec: must be an object")}
	}
	if spec == nil {
		spec = conversion.Object{}
	}
	return &fields{spec: spec}
}

// take removes and returns a field of a type; the zero value if it is absent or null.
func take[T any](f *fields, name string) (out T) {
	v := f.spec[name]
	delete(f.spec, name)
	if v == nil {
		return out
	}
	out, ok := v.(T)
	if !ok && f.err == nil {
		f.err = fmt.Errorf("spec.%s: must be %s, is %T", name, typeName(out), v)
	}
	return out
}

func typeName(v any) string {
	switch v.(type) {
	case conversion.Object:
		return "an object"
	case []any:
		return "a list"
	case int64:
		return "an integer"
	}
	return "a string"
}

// put sets a field unless the value is empty.
func put(o conversion.Object, name string, v any) {
	switch v := v.(type) {
	case nil:
		return
	case conversion.Object:
		if v == nil {
			return
		}
	case []any:
		if v == nil {
			return
		}
	}
	o[name] = v
}

func (r *run) provisioner(i *item) error {
	f := specOf(i.new)
	template, meta := conversion.Object{}, conversion.Object{}
	labels := take[conversion.Object](f, "labels")
	put(meta, "labels", labels)
	put(meta, "annotations", take[conversion.Object](f, "annotations"))
	put(template, "taints", take[[]any](f, "taints"))
	put(template, "startupTaints", take[[]any](f, "startupTaints"))
	requirements := take[[]any](f, "requirements")
	if !r.opts.IgnoreDefaults {
		requirements = withDefaults(requirements, labels)
	}
	if requirements == nil {
		requirements = []any{}
	}
	template["requirements"] = requirements
	put(template, "kubelet", r.kubelet(i, take[conversion.Object](f, "kubeletConfiguration")))
	if err := r.providerOf(i, f, template); err != nil {
		return err
	}
	spec := conversion.Object{"template": conversion.Object{"spec": template}, "disruption": disruptionOf(f)}
	if len(meta) > 0 {
		spec["template"].(conversion.Object)["metadata"] = meta
	}
	if limits := take[conversion.Object](f, "limits"); limits != nil {
		put(spec, "limits", limits["resources"])
	}
	put(spec, "weight", take[any](f, "weight"))
	i.new["apiVersion"], i.new["kind"], i.new["spec"] = "karpenter.sh/v1beta1", "NodePool", spec
	if _, had := i.new["status"]; had {
		delete(i.new, "status")
		r.addNote(i, "status", "dropped: the NodePool gets its own")
	}
	r.leftovers(i, f)
	return f.err
}

// leftovers names the fields that nothing has read.
func (r *run) leftovers(i *item, f *fields) {
	for _, name := range slices.Sorted(maps.Keys(f.spec)) {
		r.addNote(i, "spec."+name, "has no counterpart and was dropped")
	}
}

// disruptionOf writes unset times as Never: the defaults of the CRD would switch them on.
func disruptionOf(f *fields) conversion.Object {
	out := conversion.Object{"expireAfter": "Never"}
	if _, set := f.spec["ttlSecondsUntilExpired"]; set && f.spec["ttlSecondsUntilExpired"] != nil {
		out["expireAfter"] = fmt.Sprintf("%ds", take[int64](f, "ttlSecondsUntilExpired"))
	}
	delete(f.spec, "ttlSecondsUntilExpired")
	enabled, _ := take[conversion.Object](f, "consolidation")["enabled"].(bool)
	empty, hasEmpty := f.spec["ttlSecondsAfterEmpty"]
	seconds := take[int64](f, "ttlSecondsAfterEmpty")
	switch {
	case enabled:
		out["consolidationPolicy"] = "WhenUnderutilized"
	case hasEmpty && empty != nil:
		out["consolidationPolicy"], out["consolidateAfter"] = "WhenEmpty", fmt.Sprintf("%ds", seconds)
	default:
		out["consolidationPolicy"], out["consolidateAfter"] = "WhenEmpty", "Never"
	}
	return out
}

// withDefaults adds the requirements that v1alpha5 added to each Provisioner.
func withDefaults(requirements []any, labels conversion.Object) []any {
	has := func(keys ...string) bool {
		return slices.ContainsFunc(keys, func(k string) bool { return labels[k] != nil }) ||
			slices.ContainsFunc(requirements, func(v any) bool {
				m, _ := v.(conversion.Object)
				name, _ := m["key"].(string)
				return slices.Contains(keys, name)
			})
	}
	in := func(key string, values ...any) conversion.Object {
		return conversion.Object{"key": key, "operator": "In", "values": values}
	}
	out := slices.Clone(requirements)
	if !has("kubernetes.io/os", "beta.kubernetes.io/os") {
		out = append(out, in("kubernetes.io/os", "linux"))
	}
	if !has("kubernetes.io/arch", "beta.kubernetes.io/arch") {
		out = append(out, in("kubernetes.io/arch", "amd64"))
	}
	if !has("karpenter.sh/capacity-type") {
		out = append(out, in("karpenter.sh/capacity-type", "on-demand"))
	}
	const aws = "karpenter.k8s.aws/instance-"
	if !has("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type", aws+"family", aws+"category", aws+"generation") {
		out = append(out, in(aws+"category", "c", "m", "r"),
			conversion.Object{"key": aws + "generation", "operator": "Gt", "values": []any{"2"}})
	}
	return out
}

// kubelet drops the one field that is gone.
func (r *run) kubelet(i *item, k conversion.Object) any {
	if k == nil {
		return nil
	}
	if _, had := k["containerRuntime"]; had {
		delete(k, "containerRuntime")
		r.addNote(i, "spec.kubeletConfiguration.containerRuntime", "is not supported any more: containerd it is")
	}
	return k
}

// providerOf writes the reference; an inline provider becomes an EC2NodeClass of the same name.
func (r *run) providerOf(i *item, f *fields, template conversion.Object) error {
	ref, provider := take[conversion.Object](f, "providerRef"), take[conversion.Object](f, "provider")
	name, _ := ref["name"].(string)
	if provider != nil {
		delete(provider, "apiVersion")
		delete(provider, "kind")
		name = nameOf(i.new)
		class := &item{source: i.source, old: i.old, new: conversion.Object{"metadata": conversion.Object{"name": name}, "spec": provider}}
		if err := r.nodeTemplate(class); err != nil {
			return fmt.Errorf("spec.provider: %w", err)
		}
		i.extra = append(i.extra, class.new)
	}
	if name == "" {
		return errors.New("spec.providerRef: is required, or an inline spec.provider")
	}
	template["nodeClassRef"] = conversion.Object{"apiVersion": "karpenter.k8s.aws/v1beta1", "kind": "EC2NodeClass", "name": name}
	return nil
}

// draftPool takes the names of the v1beta1 draft to those that were shipped.
func (r *run) draftPool(i *item) error {
	f := specOf(i.new)
	if f.err != nil {
		return f.err
	}
	d, _ := f.spec["deprovisioning"].(conversion.Object)
	if d != nil {
		delete(f.spec, "deprovisioning")
		f.spec["disruption"] = r.deprovisioning(i, d)
	}
	template, _ := conversion.Field(i.new, "spec", "template", "spec").(conversion.Object)
	if template == nil {
		return f.err
	}
	if k := take[conversion.Object](f, "kubeletConfiguration"); k != nil {
		put(template, "kubelet", r.kubelet(i, k))
	}
	if k, ok := template["kubeletConfiguration"].(conversion.Object); ok {
		delete(template, "kubeletConfiguration")
		put(template, "kubelet", r.kubelet(i, k))
	}
	draftReference(template)
	return f.err
}

func (r *run) deprovisioning(i *item, d conversion.Object) conversion.Object {
	out := conversion.Object{"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never", "expireAfter": "Never"}
	for _, name := range slices.Sorted(maps.Keys(d)) {
		v := d[name]
		switch name {
		case "ttlUntilExpired", "expirationTTL", "expireAfter":
			out["expireAfter"] = hours(v)
		case "ttlAfterUnderutilized", "consolidationTTL", "consolidateAfter":
			out["consolidateAfter"] = hours(v)
		case "consolidation", "consolidationPolicy", "budgets":
		default:
			r.addNote(i, "spec.deprovisioning."+name, "has no counterpart: the times to launch and to register are fixed")
		}
	}
	put(out, "budgets", d["budgets"])
	put(out, "consolidationPolicy", d["consolidationPolicy"])
	c, _ := d["consolidation"].(conversion.Object)
	if enabled, _ := c["enabled"].(bool); enabled {
		out["consolidationPolicy"] = "WhenUnderutilized"
	}
	if out["consolidationPolicy"] == "WhenUnderutilized" {
		if after := out["consolidateAfter"]; after != "Never" {
			r.addNote(i, "spec.deprovisioning.ttlAfterUnderutilized", "%v: WhenUnderutilized waits for nothing", after)
		}
		delete(out, "consolidateAfter")
	}
	return out
}

// hours writes days, which the draft had and no version took, as hours.
func hours(v any) any {
	text, _ := v.(string)
	days, err := strconv.Atoi(strings.TrimSuffix(text, "d"))
	if err != nil || !strings.HasSuffix(text, "d") {
		return v
	}
	return strconv.Itoa(24*days) + "h"
}

// draftReference renames nodeTemplateRef and machineTemplateRef, and what they point to.
func draftReference(spec conversion.Object) {
	for _, old := range []string{"nodeTemplateRef", "machineTemplateRef"} {
		if v, ok := spec[old]; ok {
			delete(spec, old)
			spec["nodeClassRef"] = v
		}
	}
	ref, _ := spec["nodeClassRef"].(conversion.Object)
	if kind, _ := ref["kind"].(string); kind == "NodeTemplate" || kind == "AWSNodeTemplate" {
		ref["kind"] = "EC2NodeClass"
	}
	if v, _ := ref["apiVersion"].(string); strings.HasPrefix(v, "compute.k8s.aws/") || v == "karpenter.k8s.aws/v1alpha1" {
		ref["apiVersion"] = "karpenter.k8s.aws/v1beta1"
	}
}

// machine is a NodeClaim by its old name.
func (r *run) machine(i *item) error {
	f := specOf(i.new)
	if f.err != nil {
		return f.err
	}
	draftReference(f.spec)
	if k := take[conversion.Object](f, "kubeletConfiguration"); k != nil {
		put(f.spec, "kubelet", r.kubelet(i, k))
	}
	conditions, _ := conversion.Field(i.new, "status", "conditions").([]any)
	for _, c := range conditions {
		if m, ok := c.(conversion.Object); ok {
			name, _ := m["type"].(string)
			m["type"] = strings.TrimPrefix(name, "Machine")
		}
	}
	i.new["apiVersion"], i.new["kind"] = "karpenter.sh/v1beta1", "NodeClaim"
	return f.err
}
