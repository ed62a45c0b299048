package convert

import (
	"maps"
	"reflect"

	"millwright/api/conversion"
)

// defaultsAnnotation names the field that fillDefaults has written, so that converting back removes it again.
const defaultsAnnotation = "compatibility.millwright.sh/written-default"

// hopLimits of the instance metadata service by version, where nothing is said.
var hopLimits = map[string]int64{"karpenter.k8s.aws/v1beta1": 2, "karpenter.k8s.aws/v1": 1}

const (
	optionsField = "metadataOptions"
	hopsField    = "httpPutResponseHopLimit"
)

// fillDefaults writes out the one default that differs between the versions, so that nodes keep their
// metadata options. What an earlier run wrote is removed first.
func (r *run) fillDefaults(o conversion.Object) {
	version, _ := o["apiVersion"].(string)
	hops := hopLimits[version]
	spec, ok := o["spec"].(conversion.Object)
	if hops == 0 || !ok || version == "karpenter.k8s.aws/"+r.opts.To {
		return
	}
	if takeDefaults(o, spec, hopLimits["karpenter.k8s.aws/"+r.opts.To]) {
		return
	}
	filled := ""
	m, ok := spec[optionsField].(conversion.Object)
	if _, has := m[hopsField]; !has {
		filled = hopsField
	}
	if !ok {
		filled = optionsField
		m = metadataDefaults()
		spec[optionsField] = m
	}
	if filled == "" {
		return
	}
	m[hopsField] = hops
	if r.opts.RoundTrip {
		annotate(o, defaultsAnnotation, filled)
	}
}

func metadataDefaults() conversion.Object {
	return conversion.Object{"httpEndpoint": "enabled", "httpProtocolIPv6": "disabled", "httpTokens": "required"}
}

// takeDefaults removes what the annotation says was written, if it is still there; hops is the default of the
// version that it came from. It reports whether there is nothing left to fill.
func takeDefaults(o, spec conversion.Object, hops int64) bool {
	filled, annotated := annotations(o)[defaultsAnnotation]
	if !annotated {
		return false
	}
	dropAnnotation(o, defaultsAnnotation)
	m, _ := spec[optionsField].(conversion.Object)
	if m[hopsField] != hops {
		return false
	}
	if filled == hopsField {
		delete(m, hopsField)
		return true
	}
	rest := maps.Clone(m)
	delete(rest, hopsField)
	if !reflect.DeepEqual(rest, metadataDefaults()) {
		return false
	}
	delete(spec, optionsField)
	return true
}

func annotate(o conversion.Object, key, value string) {
	meta, ok := o["metadata"].(conversion.Object)
	if !ok {
		meta = conversion.Object{}
		o["metadata"] = meta
	}
	a, ok := meta["annotations"].(conversion.Object)
	if !ok {
		a = conversion.Object{}
		meta["annotations"] = a
	}
	a[key] = value
}

// Parts of a v1beta1 NodePool that were absent; conversion writes the default.
const (
	disruptionField = "disruption"
	policyField     = "consolidationPolicy"
)

// noteAbsentPolicy writes down that a v1beta1 NodePool names no consolidation policy.
func noteAbsentPolicy(o conversion.Object) {
	spec, ok := o["spec"].(conversion.Object)
	if o["apiVersion"] != "karpenter.sh/v1beta1" || o["kind"] != "NodePool" || !ok {
		return
	}
	d, ok := spec[disruptionField].(conversion.Object)
	switch {
	case !ok:
		annotate(o, defaultsAnnotation, disruptionField)
	case d[policyField] == nil:
		annotate(o, defaultsAnnotation, policyField)
	}
}

// takeWritten removes the note of a v1 NodePool and returns what it says; "" if there is none.
func takeWritten(o conversion.Object) string {
	text, _ := annotations(o)[defaultsAnnotation].(string)
	if o["kind"] != "NodePool" || text == "" {
		return ""
	}
	dropAnnotation(o, defaultsAnnotation)
	return text
}

// removePolicy takes the default policy away from a v1beta1 NodePool in which it was absent.
func removePolicy(out conversion.Object, written string) {
	spec, _ := out["spec"].(conversion.Object)
	d, ok := spec[disruptionField].(conversion.Object)
	if written == "" || !ok || d[policyField] != "WhenUnderutilized" {
		return
	}
	delete(d, policyField)
	if written == disruptionField && len(d) == 0 {
		delete(spec, disruptionField)
	}
}
