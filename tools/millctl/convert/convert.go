package convert

import (
	"bytes"
	"context"
	"fmt"
	"maps"

	"millwright/api/conversion"
	"millwright/deploy/crds"
	"millwright/store/audit/plan"
)

// Options of a run.
type Options struct {
	// To is v1 or v1beta1.
	To string
	// Workloads renames labels, annotations and taints of earlier versions in documents of other kinds.
	Workloads bool
	// IgnoreDefaults leaves out the requirements that v1alpha5 added to each Provisioner on its own.
	IgnoreDefaults bool
	// RoundTrip keeps the annotations with which converting back gives the same object, and changes nothing
	// but the version.
	RoundTrip bool
}

// Source is one file.
type Source struct {
	Name string
	Data []byte
}

// Note is what could not be expressed, by object and field.
type Note struct {
	Source, Object, Field, Text string
}

func (n Note) String() string {
	return fmt.Sprintf("%s: %s: %s: %s", n.Source, n.Object, n.Field, n.Text)
}

// run is the state of one Run.
type run struct {
	opts   Options
	shapes *conversion.Shapes
	items  []*item
	notes  []Note
}

// item is one object of a document, before and after.
type item struct {
	source   string
	old, new conversion.Object
	// extra are objects that come out of this one.
	extra []conversion.Object
}

func (r *run) addNote(i *item, field, format string, args ...any) {
	r.notes = append(r.notes, Note{i.source, conversion.Name(i.old), field, fmt.Sprintf(format, args...)})
}

// Run converts all sources, in order, into one stream of YAML documents.
func Run(opts Options, sources []Source) ([]byte, []Note, error) {
	shapes, err := conversion.NewShapes(crds.WithV1beta1, "with-v1beta1")
	if err != nil {
		return nil, nil, err
	}
	r := &run{opts: opts, shapes: shapes}
	var docs []*document
	for _, s := range sources {
		parsed, err := split(s)
		if err != nil {
			return nil, nil, err
		}
		docs = append(docs, parsed...)
	}
	for _, d := range docs {
		if err := r.convertDocument(d); err != nil {
			return nil, nil, err
		}
	}
	if err := r.convertAll(); err != nil {
		return nil, nil, err
	}
	out, err := r.write(docs)
	return out, r.notes, err
}

// convertDocument finds the objects of a document that are to be converted; a List has several.
func (r *run) convertDocument(d *document) error {
	o, ok := d.tree.(conversion.Object)
	if !ok {
		return nil
	}
	if list, isList := o["items"].([]any); isList && o["kind"] == "List" && o["apiVersion"] == "v1" {
		for _, v := range list {
			if child, ok := v.(conversion.Object); ok && concerns(child) {
				d.items = append(d.items, &item{source: d.source, old: child})
			}
		}
	} else if concerns(o) {
		d.items = append(d.items, &item{source: d.source, old: o})
	}
	if len(d.items) > 0 {
		if twice := plan.KeyTwice(d.root); twice != nil {
			return fmt.Errorf("%s: %s: line %d: key %q is there twice", d.source, conversion.Name(d.items[0].old), twice.Line, twice.Value)
		}
	}
	r.items = append(r.items, d.items...)
	return nil
}

// convertAll brings every object to v1beta1 if it is older, then to the version asked for.
func (r *run) convertAll() error {
	for _, i := range r.items {
		if err := r.modernize(i); err != nil {
			return fmt.Errorf("%s: %s: %w", i.source, conversion.Name(i.old), err)
		}
	}
	converter := conversion.Converter{Pool: r.pool}
	kubelets := r.kubeletsOfClasses()
	for _, i := range r.items {
		if err := r.convertOne(converter, i); err != nil {
			return fmt.Errorf("%s: %w", i.source, err)
		}
	}
	switch {
	case r.opts.To == conversion.V1 && r.opts.RoundTrip:
		r.kubeletsStay()
	case r.opts.To == conversion.V1:
		r.kubeletsToClasses()
	default:
		r.kubeletsToPools(kubelets)
	}
	return nil
}

func (r *run) convertOne(converter conversion.Converter, i *item) error {
	for n, o := range append([]conversion.Object{i.new}, i.extra...) {
		if err := r.shapes.CheckValues(o); err != nil {
			return err
		}
		r.fillDefaults(o)
		written := takeWritten(o)
		if r.opts.RoundTrip && r.opts.To == conversion.V1 {
			noteAbsentPolicy(o)
		}
		group, _, _ := bytes.Cut([]byte(o["apiVersion"].(string)), []byte("/"))
		out, losses, err := converter.Convert(context.Background(), o, string(group)+"/"+r.opts.To)
		if err != nil {
			return err
		}
		for _, l := range losses {
			if !(l.Path == "spec.kubelet" && r.opts.To == conversion.V1beta1) { // kubeletsToPools says what became of it
				r.addNote(i, l.Path, "%s", l.Why)
			}
		}
		if err := r.shapes.CheckValues(out); err != nil {
			return err
		}
		removePolicy(out, written)
		r.finish(i, o, out)
		if n == 0 {
			i.new = out
		} else {
			i.extra[n-1] = out
		}
	}
	return nil
}

// finish removes the annotations that only a cluster serving both versions needs.
func (r *run) finish(i *item, before, out conversion.Object) {
	if r.opts.To != conversion.V1 || before["apiVersion"] == out["apiVersion"] {
		return
	}
	a := annotations(out)
	if r.opts.RoundTrip {
		a = maps.Clone(a)
	}
	delete(a, conversion.NodeClassReferenceAnnotation)
	v, ok := a[conversion.ConsolidateAfterAnnotation]
	delete(a, conversion.ConsolidateAfterAnnotation)
	if ok && conversion.Field(out, "spec", "disruption", "consolidateAfter") != v {
		r.addNote(i, "spec.disruption.consolidateAfter", "%v under WhenUnderutilized becomes 0s, which turns consolidation on; set %v to keep it off", v, v)
	}
	if text, ok := a[conversion.UbuntuAnnotation].(string); ok {
		delete(a, conversion.UbuntuAnnotation)
		r.addNote(i, "spec.amiFamily", "v1 has no family Ubuntu: AL2 stands in its place (%s)", text)
		if bytes.Contains([]byte(text), []byte("incompatible")) {
			r.addNote(i, "spec.amiSelectorTerms", "Ubuntu has no alias: replace ami-placeholder by terms that select an image")
		}
	}
	if len(a) == 0 && !r.opts.RoundTrip {
		delete(out["metadata"].(conversion.Object), "annotations")
	}
}

// pool returns when NodeClaims of a NodePool in the input expire.
func (r *run) pool(_ context.Context, name string) (string, bool, error) {
	for _, i := range r.items {
		if i.new["kind"] != "NodePool" || nameOf(i.new) != name {
			continue
		}
		for _, path := range [][]string{{"spec", "template", "spec", "expireAfter"}, {"spec", "disruption", "expireAfter"}} {
			if text, ok := conversion.Field(i.new, path...).(string); ok {
				return text, true, nil
			}
		}
		return "720h", true, nil
	}
	return "", false, nil
}

func nameOf(o conversion.Object) string {
	name, _ := conversion.Field(o, "metadata", "name").(string)
	return name
}

func annotations(o conversion.Object) conversion.Object {
	a, _ := conversion.Field(o, "metadata", "annotations").(conversion.Object)
	return a
}
