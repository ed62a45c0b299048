package conversion

import (
	"encoding/json"
	"errors"
	"strings"
)

// specToV1 does what NodePool templates and NodeClaims have in common: the kubelet block goes into an
// annotation and the reference becomes group, kind and name.
func specToV1(spec node, a *annotations) error {
	delete(a.m, KubeletAnnotation)
	kubelet, ok, err := spec.child("kubelet")
	if err != nil {
		return err
	}
	if ok {
		text, err := json.Marshal(kubelet.fields)
		if err != nil {
			return &FieldError{kubelet.path, err.Error()}
		}
		a.set(KubeletAnnotation, string(text))
	}
	delete(spec.fields, "kubelet")
	return referenceToV1(spec, a)
}

func referenceToV1(spec node, a *annotations) error {
	ref, err := spec.required("nodeClassRef")
	if err != nil {
		return err
	}
	v1, err := referenceOf(ref)
	if err != nil {
		return err
	}
	text, err := json.Marshal(ref.fields)
	if err != nil {
		return &FieldError{ref.path, err.Error()}
	}
	a.set(NodeClassReferenceAnnotation, string(text))
	spec.fields["nodeClassRef"] = v1
	return nil
}

// referenceOf is the v1 form of a v1beta1 reference.
func referenceOf(ref node) (Object, error) {
	name, err := ref.text("name")
	if err != nil {
		return nil, err
	}
	kind, err := ref.text("kind")
	if err != nil {
		return nil, err
	}
	apiVersion, err := ref.text("apiVersion")
	if err != nil {
		return nil, err
	}
	if kind == "" {
		kind = defaultKind
	}
	group, _, slash := strings.Cut(apiVersion, "/")
	if !slash || group == "" {
		group = groupAWS
	}
	return Object{"group": group, "kind": kind, "name": name}, nil
}

// specToBeta is specToV1 backwards.
func specToBeta(spec node, a *annotations) error {
	if text, ok := a.take(KubeletAnnotation); ok && text != "" {
		kubelet, err := parseObject(text)
		if err != nil {
			return &FieldError{a.path(KubeletAnnotation), err.Error()}
		}
		spec.fields["kubelet"] = kubelet
	}
	return referenceToBeta(spec, a)
}

// referenceToBeta gives back the reference of the annotation as it was, unless the reference in the spec was
// changed to another object meanwhile (Karpenter lets a stale annotation win).
func referenceToBeta(spec node, a *annotations) error {
	text, annotated := a.take(NodeClassReferenceAnnotation)
	ref, ok, err := spec.child("nodeClassRef")
	if err != nil {
		return err
	}
	if !ok && !annotated {
		return spec.fault("nodeClassRef", "is required")
	}
	if annotated {
		old, err := parseObject(text)
		if err != nil {
			return &FieldError{a.path(NodeClassReferenceAnnotation), err.Error()}
		}
		as, err := referenceOf(node{a.path(NodeClassReferenceAnnotation), old})
		if err != nil {
			return err
		}
		if !ok || sameReference(as, ref.fields) {
			spec.fields["nodeClassRef"] = old
			return nil
		}
	}
	beta := Object{}
	for _, key := range []string{"kind", "name"} {
		if v, has := ref.fields[key]; has {
			beta[key] = v
		}
	}
	spec.fields["nodeClassRef"] = beta
	return nil
}

// sameReference compares with defaults filled in: objects stored by 1.0 may lack group and kind.
func sameReference(a, b Object) bool {
	for key, def := range map[string]string{"group": groupAWS, "kind": defaultKind, "name": ""} {
		x, _ := a[key].(string)
		y, _ := b[key].(string)
		if y == "" {
			y = def
		}
		if x != y {
			return false
		}
	}
	return true
}

// parseObject reads the JSON object of an annotation.
func parseObject(text string) (Object, error) {
	var v any
	if err := Unmarshal([]byte(text), &v); err != nil {
		return nil, err
	}
	m, ok := v.(Object)
	if !ok {
		return nil, errors.New("must be a JSON object, is " + kindOf(v))
	}
	return m, nil
}
