package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	bufferv1beta1 "millwright/api/autoscaling/v1beta1"
	karpv1 "millwright/api/karpenter/v1"
	karpv1alpha1 "millwright/api/karpenter/v1alpha1"
	awsv1 "millwright/api/karpenteraws/v1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/events"
)

// kind of object that planners read.
type kind struct {
	event      events.Kind
	apiVersion string
	namespaced bool
	empty      func() metav1.Object
}

// kinds by name. Objects of other kinds are passed over.
var kinds = map[string]kind{
	"Pod":                   {events.KindPod, "v1", true, func() metav1.Object { return &corev1.Pod{} }},
	"Node":                  {events.KindNode, "v1", false, func() metav1.Object { return &corev1.Node{} }},
	"NodeClaim":             {events.KindNodeClaim, karpv1.Group + "/v1", false, func() metav1.Object { return &karpv1.NodeClaim{} }},
	"NodePool":              {events.KindNodePool, karpv1.Group + "/v1", false, func() metav1.Object { return &karpv1.NodePool{} }},
	"EC2NodeClass":          {events.KindEC2NodeClass, awsv1.Group + "/v1", false, func() metav1.Object { return &awsv1.EC2NodeClass{} }},
	"DaemonSet":             {events.KindDaemonSet, "apps/v1", true, func() metav1.Object { return &appsv1.DaemonSet{} }},
	"PodDisruptionBudget":   {events.KindPodDisruptionBudget, "policy/v1", true, func() metav1.Object { return &policyv1.PodDisruptionBudget{} }},
	"PersistentVolumeClaim": {events.KindPersistentVolumeClaim, "v1", true, func() metav1.Object { return &corev1.PersistentVolumeClaim{} }},
	"PersistentVolume":      {events.KindPersistentVolume, "v1", false, func() metav1.Object { return &corev1.PersistentVolume{} }},
	"StorageClass":          {events.KindStorageClass, "storage.k8s.io/v1", false, func() metav1.Object { return &storagev1.StorageClass{} }},
	"CSINode":               {events.KindCSINode, "storage.k8s.io/v1", false, func() metav1.Object { return &storagev1.CSINode{} }},
	"VolumeAttachment":      {events.KindVolumeAttachment, "storage.k8s.io/v1", false, func() metav1.Object { return &storagev1.VolumeAttachment{} }},
	"NodeOverlay":           {events.KindNodeOverlay, karpv1alpha1.Group + "/v1alpha1", false, func() metav1.Object { return &karpv1alpha1.NodeOverlay{} }},
	"DisruptionPolicy":      {events.KindDisruptionPolicy, mwv1alpha1.Group + "/v1alpha1", false, func() metav1.Object { return &mwv1alpha1.DisruptionPolicy{} }},
	"CapacityBuffer":        {events.KindCapacityBuffer, bufferv1beta1.Group + "/v1beta1", true, func() metav1.Object { return &bufferv1beta1.CapacityBuffer{} }},
	"PodTemplate":           {events.KindPodTemplate, "v1", true, func() metav1.Object { return &corev1.PodTemplate{} }},
	"Deployment":            {events.KindDeployment, "apps/v1", true, func() metav1.Object { return &appsv1.Deployment{} }},
	"StatefulSet":           {events.KindStatefulSet, "apps/v1", true, func() metav1.Object { return &appsv1.StatefulSet{} }},
	"ReplicaSet":            {events.KindReplicaSet, "apps/v1", true, func() metav1.Object { return &appsv1.ReplicaSet{} }},
	"Namespace":             {events.KindNamespace, "v1", false, func() metav1.Object { return &corev1.Namespace{} }},
	"Job":                   {0, "batch/v1", true, func() metav1.Object { return &batchv1.Job{} }}, // no planner reads it: it stands for pods
	"PriorityClass":         {events.KindPriorityClass, "scheduling.k8s.io/v1", false, func() metav1.Object { return &schedulingv1.PriorityClass{} }},
}

// header is the part of an object that gives its type.
type header struct{ apiVersion, kind string }

// kindOf returns how to read an object; ok is false if planners do not look at such objects.
func (h header) kindOf() (k kind, ok bool, err error) {
	k, known := kinds[h.kind]
	if !known || group(h.apiVersion) != group(k.apiVersion) {
		return kind{}, false, nil
	}
	if h.apiVersion != k.apiVersion {
		return kind{}, false, fmt.Errorf("%s of %s is not understood; give it as %s", h.kind, h.apiVersion, k.apiVersion)
	}
	return k, true, nil
}

func group(apiVersion string) string {
	g, _, grouped := strings.Cut(apiVersion, "/")
	if !grouped {
		return ""
	}
	return g
}

// object is one decoded object.
type object struct {
	kind
	meta metav1.Object
	// name is "namespace/name", or "name" for what has no namespace.
	name string
	// label is "Kind name", for messages; typeName is the kind.
	label, typeName string
}

// Objects reads the objects of sources in their order, as they are written; those of kinds that planners do
// not look at are left out. An *InputError says what is wrong.
func Objects(sources ...Source) (list []metav1.Object, err error) {
	for _, s := range sources {
		err := s.each(func(d *document) error {
			return d.each(func(o *object) error {
				list = append(list, o.meta)
				return nil
			})
		})
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

// each calls fn for the object a document holds, or for each of those in a List.
func (d *document) each(fn func(*object) error) error {
	raw := d.raw
	if !d.json || !json.Valid(raw) {
		converted, err := toJSON(raw)
		if err != nil {
			return d.fail("", "", err)
		}
		raw = converted
	}
	return d.value(raw, header{}, "", fn)
}

// value reads one object; parent is the List it is in, whose items may leave out their type.
func (d *document) value(raw []byte, item header, path string, fn func(*object) error) error {
	h, err := headerOf(raw)
	if err != nil {
		return d.fail("", strings.TrimSuffix(path, "."), err)
	}
	if h.kind == "" && item.kind != "" {
		h = item
	}
	switch {
	case h.kind == "":
		return d.fail(labelOf(raw, ""), path+"kind", errors.New("is missing"))
	case h.apiVersion == "":
		return d.fail(labelOf(raw, h.kind), path+"apiVersion", errors.New("is missing"))
	case strings.HasSuffix(h.kind, "List"):
		return d.list(raw, h, path, fn)
	}
	k, ok, err := h.kindOf()
	if err != nil {
		return d.fail(labelOf(raw, h.kind), path+"apiVersion", err)
	}
	if !ok || !d.wanted(h.kind, k.event) {
		return nil
	}
	o, err := d.decode(raw, h, k, path)
	if err != nil {
		return err
	}
	return fn(o)
}

// wanted reports that objects of a kind are read.
func (d *document) wanted(name string, k events.Kind) bool {
	switch {
	case d.workloads && podsOf[name] != nil:
		return true
	case isBuffer(k):
		return d.buffers
	}
	return k != 0
}

// isBuffer: the kind is CapacityBuffer, or one that these refer to.
func isBuffer(k events.Kind) bool {
	return k >= events.KindCapacityBuffer && k <= events.KindReplicaSet
}

func (d *document) list(raw []byte, h header, path string, fn func(*object) error) error {
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return d.fail(h.kind, path+"items", plain(err))
	}
	item := header{apiVersion: h.apiVersion, kind: strings.TrimSuffix(h.kind, "List")}
	for i, raw := range list.Items {
		if err := d.value(raw, item, fmt.Sprintf("%sitems[%d].", path, i), fn); err != nil {
			return err
		}
	}
	return nil
}

func (d *document) decode(raw []byte, h header, k kind, path string) (*object, error) {
	m := k.empty()
	if r := decodeWhole(raw, m, func() any { return k.empty() }); r != nil {
		return nil, d.fail(labelOf(raw, h.kind), path+r.path, plain(r.err))
	}
	if field := unknownField(m, raw); field != "" {
		return nil, d.fail(labelOf(raw, h.kind), path+field, errors.New("is not a field of a DisruptionPolicy"))
	}
	if field, fault, bad := strings.Cut(unreadable(m), ": "); bad {
		return nil, d.fail(labelOf(raw, h.kind), path+field, errors.New(fault))
	}
	if field, amount := negativeAmount(m); field != "" {
		return nil, d.fail(labelOf(raw, h.kind), path+field, fmt.Errorf("is %s and must not be negative", amount))
	}
	o := &object{kind: k, meta: m, name: m.GetName(), typeName: h.kind}
	if k.namespaced {
		if m.GetNamespace() == "" {
			m.SetNamespace("default")
		}
		o.name = m.GetNamespace() + "/" + o.name
	}
	o.label = h.kind + " " + o.name
	if m.GetName() == "" {
		return nil, d.fail(h.kind, path+"metadata.name", errors.New("is missing"))
	}
	return o, nil
}

// unreadable is "field: fault" if the spec of one of our kinds could not be read, else "".
func unreadable(m metav1.Object) string {
	switch o := m.(type) {
	case *karpv1.NodePool:
		return o.Unreadable
	case *karpv1.NodeClaim:
		return o.Unreadable
	case *awsv1.EC2NodeClass:
		return o.Unreadable
	case *karpv1alpha1.NodeOverlay:
		return o.Unreadable
	case *bufferv1beta1.CapacityBuffer:
		return o.Unreadable
	}
	return ""
}

// unknownField is the first field of a DisruptionPolicy that there is no such field for; "" if there is none.
// The API server refuses it; were it passed over here, the plan would take nodes that the policy is to keep.
func unknownField(m metav1.Object, raw []byte) string {
	if _, is := m.(*mwv1alpha1.DisruptionPolicy); !is {
		return ""
	}
	r := findRefused(raw, func(b []byte) error {
		d := json.NewDecoder(bytes.NewReader(b))
		d.DisallowUnknownFields()
		return d.Decode(&struct {
			APIVersion, Kind, Metadata, Status any
			Spec                               mwv1alpha1.DisruptionPolicySpec
		}{})
	})
	if r == nil {
		return ""
	}
	return r.path
}

// labelOf names an object that could not be decoded, as well as it can.
func labelOf(raw []byte, kind string) string {
	var o struct {
		Metadata struct {
			Name      any `json:"name"`
			Namespace any `json:"namespace"`
		} `json:"metadata"`
	}
	_ = json.Unmarshal(raw, &o)
	name, _ := o.Metadata.Name.(string)
	if namespace, _ := o.Metadata.Namespace.(string); namespace != "" {
		name = namespace + "/" + name
	}
	return strings.TrimSpace(kind + " " + name)
}

// toJSON refuses a key that a mapping has twice, as kubectl does: one of the values would be lost. So would
// be a second document.
func toJSON(raw []byte) ([]byte, error) {
	if hasSeveral(raw) {
		return nil, errors.New("there is more than one document in it")
	}
	converted, err := yaml.YAMLToJSONStrict(raw)
	if err == nil {
		return converted, nil
	}
	var root yamlv3.Node
	if yamlv3.Unmarshal(raw, &root) == nil {
		if twice := KeyTwice(&root); twice != nil {
			return nil, fmt.Errorf("line %d: key %q is there twice", twice.Line, twice.Value)
		}
	}
	converted, err = yaml.YAMLToJSON(raw) // a key that a merge brings may be set anew
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "error converting YAML to JSON: "))
	}
	return converted, nil
}

// hasSeveral reports that there is more than one document. Only behind a line that begins with dashes or
// dots, or behind a brace, can there be another.
func hasSeveral(raw []byte) bool {
	text := bytes.TrimSpace(raw)
	if !bytes.HasPrefix(text, []byte("{")) && !bytes.Contains(text, []byte("\n---")) && !bytes.Contains(text, []byte("\n...")) {
		return false
	}
	d := yamlv3.NewDecoder(bytes.NewReader(text))
	var first, second yamlv3.Node
	return d.Decode(&first) == nil && !errors.Is(d.Decode(&second), io.EOF)
}

// KeyTwice is the first key that its mapping has already; nil if there is none.
func KeyTwice(n *yamlv3.Node) *yamlv3.Node {
	seen := map[string]bool{}
	for i, c := range n.Content {
		if n.Kind == yamlv3.MappingNode && i%2 == 0 && c.Kind == yamlv3.ScalarNode && c.Tag != "!!merge" {
			if seen[c.Value] {
				return c
			}
			seen[c.Value] = true
		}
		if twice := KeyTwice(c); twice != nil {
			return twice
		}
	}
	return nil
}

// plain turns a decoding error into words; the field stands before it.
func plain(err error) error {
	var t *json.UnmarshalTypeError
	if errors.As(err, &t) {
		return fmt.Errorf("is %s and must be a %s", valueName(t.Value), typeName(t.Type.Kind().String()))
	}
	return err
}

func valueName(value string) string {
	switch value {
	case "object":
		return "a mapping"
	case "array":
		return "a list"
	}
	return "a " + value
}

func typeName(kind string) string {
	switch {
	case kind == "struct" || kind == "map":
		return "mapping"
	case kind == "slice" || kind == "array":
		return "list"
	case strings.HasPrefix(kind, "int") || strings.HasPrefix(kind, "uint"):
		return "whole number"
	}
	return kind
}
