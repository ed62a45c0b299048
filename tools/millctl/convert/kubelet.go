package convert

import (
	"encoding/json"
	"reflect"

	"millwright/api/conversion"
)

// objects visits every object that is written, with the item it comes from.
func (r *run) objects(visit func(i *item, o conversion.Object)) {
	for _, i := range r.items {
		visit(i, i.new)
		for _, o := range i.extra {
			visit(i, o)
		}
	}
}

// poolsOf maps the name of each EC2NodeClass of the input to the NodePools that refer to it.
func (r *run) poolsOf() map[string][]conversion.Object {
	out := map[string][]conversion.Object{}
	r.objects(func(_ *item, o conversion.Object) {
		if name, ok := conversion.Field(o, "spec", "template", "spec", "nodeClassRef", "name").(string); ok && o["kind"] == "NodePool" {
			out[name] = append(out[name], o)
		}
	})
	return out
}

// kubeletsToClasses moves the kubelet blocks of v1beta1 from NodePools, where conversion left them in an
// annotation, to the class they refer to, if that is in the input and all its NodePools agree.
func (r *run) kubeletsToClasses() {
	pools := r.poolsOf()
	moved := map[string]bool{}
	r.objects(func(i *item, o conversion.Object) {
		name := nameOf(o)
		spec, ok := o["spec"].(conversion.Object)
		if o["kind"] != "EC2NodeClass" || !ok {
			return
		}
		blocks := kubeletsOf(pools[name])
		switch {
		case len(blocks) == 0:
			return
		case len(blocks) < len(pools[name]), !allEqual(blocks):
			r.addNote(i, "spec.kubelet", "NodePools that share this class have different kubelet blocks: give each its own class")
			return
		case spec["kubelet"] != nil && !reflect.DeepEqual(spec["kubelet"], blocks[0]):
			r.addNote(i, "spec.kubelet", "differs from the kubelet block of its NodePools")
			return
		}
		spec["kubelet"] = blocks[0]
		moved[name] = true
		for _, p := range pools[name] {
			dropAnnotation(p, conversion.KubeletAnnotation)
		}
	})
	r.kubeletsStay()
}

// kubeletsStay says of the kubelet blocks that are left on NodePools what becomes of them.
func (r *run) kubeletsStay() {
	r.objects(func(i *item, o conversion.Object) {
		if _, left := annotations(o)[conversion.KubeletAnnotation]; left {
			r.addNote(i, "kubelet", "v1 has it on the EC2NodeClass: kept in the annotation %s, which Millwright and Karpenter 1.1 ignore", conversion.KubeletAnnotation)
		}
	})
}

func kubeletsOf(pools []conversion.Object) []any {
	var out []any
	for _, p := range pools {
		text, ok := annotations(p)[conversion.KubeletAnnotation].(string)
		var v any
		if ok && conversion.Unmarshal([]byte(text), &v) == nil {
			out = append(out, v)
		}
	}
	return out
}

func allEqual(values []any) bool {
	for _, v := range values {
		if !reflect.DeepEqual(v, values[0]) {
			return false
		}
	}
	return true
}

func dropAnnotation(o conversion.Object, key string) {
	a := annotations(o)
	if delete(a, key); len(a) == 0 {
		delete(o["metadata"].(conversion.Object), "annotations")
	}
}

// kubeletsOfClasses are the kubelet blocks of the v1 classes of the input, by name.
func (r *run) kubeletsOfClasses() map[string]conversion.Object {
	out := map[string]conversion.Object{}
	r.objects(func(_ *item, o conversion.Object) {
		if k, ok := conversion.Field(o, "spec", "kubelet").(conversion.Object); ok && o["kind"] == "EC2NodeClass" {
			out[nameOf(o)] = k
		}
	})
	return out
}

// kubeletsToPools gives the kubelet block of a v1 class to the NodePools of the input that refer to it.
func (r *run) kubeletsToPools(blocks map[string]conversion.Object) {
	pools := r.poolsOf()
	r.objects(func(i *item, o conversion.Object) {
		block, ok := blocks[nameOf(o)]
		if o["kind"] != "EC2NodeClass" || !ok {
			return
		}
		if len(pools[nameOf(o)]) == 0 {
			r.addNote(i, "spec.kubelet", "v1beta1 has it on the NodePool, and no NodePool of the input refers to this class")
		}
		for _, p := range pools[nameOf(o)] {
			spec := conversion.Field(p, "spec", "template", "spec").(conversion.Object)
			if spec["kubelet"] == nil {
				spec["kubelet"] = copyOf(block)
			}
		}
	})
}

// copyOf copies deeply.
func copyOf(o conversion.Object) conversion.Object {
	data, err := json.Marshal(o)
	var v any
	if err != nil || conversion.Unmarshal(data, &v) != nil {
		return o
	}
	return v.(conversion.Object)
}
