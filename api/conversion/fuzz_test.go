package conversion

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/randfill"
	"sigs.k8s.io/yaml"

	karpv1 "millwright/api/karpenter/v1"
	karpv1beta1 "millwright/api/karpenter/v1beta1"
	awsv1 "millwright/api/karpenteraws/v1"
	awsv1beta1 "millwright/api/karpenteraws/v1beta1"
)

const roundTrips = 400

// filler fills objects with random content that their CRD could let in where conversion looks at it.
func filler(seed int64) *randfill.Filler {
	duration := func(c randfill.Continue) string { return fmt.Sprintf("%dh%dm", c.Intn(99), c.Intn(99)) }
	nillable := func(d *karpv1.NillableDuration, c randfill.Continue) {
		text := "Never"
		if c.Bool() {
			text = duration(c)
		}
		if err := json.Unmarshal([]byte(`"`+text+`"`), d); err != nil {
			panic(err)
		}
	}
	pick := func(c randfill.Continue, of ...string) string { return of[c.Intn(len(of))] }
	return randfill.New().RandSource(rand.NewSource(seed)).NilChance(0.4).NumElements(1, 3).MaxDepth(12).Funcs(
		func(q *resource.Quantity, c randfill.Continue) {
			*q = resource.MustParse(fmt.Sprintf("%dMi", c.Intn(9999)))
		},
		func(d *metav1.Duration, c randfill.Continue) { d.Duration = time.Duration(c.Intn(9999)) * time.Second },
		func(x *metav1.Time, c randfill.Continue) { *x = metav1.Unix(int64(c.Intn(1<<30)), 0) },
		func(f *metav1.FieldsV1, c randfill.Continue) { f.SetRawString("{}") },
		nillable,
		func(m *metav1.TypeMeta, c randfill.Continue) {},
		func(m *metav1.ObjectMeta, c randfill.Continue) {
			c.FillNoCustom(m)
			m.ManagedFields = nil
		},
		func(d *karpv1beta1.Disruption, c randfill.Continue) {
			c.FillNoCustom(d)
			d.ConsolidationPolicy = karpv1beta1.ConsolidationPolicy(pick(c, "WhenEmpty", "WhenUnderutilized", "Balanced"))
			if d.ConsolidationPolicy == "WhenUnderutilized" {
				d.ConsolidateAfter = karpv1.NillableDuration{}
				if c.Bool() {
					d.ConsolidateAfter.Raw = "Never"
				}
			}
		},
		func(d *karpv1.Disruption, c randfill.Continue) {
			c.FillNoCustom(d)
			d.ConsolidationPolicy = karpv1.ConsolidationPolicy(pick(c, "WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced"))
		},
		func(r *karpv1.NodeClassReference, c randfill.Continue) {
			*r = karpv1.NodeClassReference{Group: groupAWS, Kind: c.String(9) + "k", Name: c.String(9)}
		},
		func(r *karpv1beta1.NodeClassReference, c randfill.Continue) {
			c.FillNoCustom(r)
			r.APIVersion = pick(c, "", "karpenter.k8s.aws/v1beta1", "example.com/v1", "v1")
		},
		func(s *awsv1beta1.EC2NodeClassSpec, c randfill.Continue) {
			c.FillNoCustom(s)
			family := pick(c, "AL2", "AL2023", "Bottlerocket", "Ubuntu", "Custom", "Windows2019", "Windows2022", "Windows2025")
			s.AMIFamily = &family
		},
		func(s *awsv1.EC2NodeClassSpec, c randfill.Continue) {
			c.FillNoCustom(s)
			s.AMIFamily = nil
			alias := pick(c, "al2@latest", "al2023@v20240807", "bottlerocket@1.20", "windows2025@latest", "")
			family := pick(c, "AL2", "AL2023", "Custom", "Windows2019")
			switch {
			case alias == "":
				s.AMIFamily = &family
				for i := range s.AMISelectorTerms {
					s.AMISelectorTerms[i].Alias = ""
				}
			case c.Bool():
				family = "Custom"
				s.AMIFamily = &family
				fallthrough
			default:
				s.AMISelectorTerms = []awsv1.AMISelectorTerm{{Alias: alias}}
			}
		},
	)
}

// tree is what the API server would send of a typed object.
func tree(t *testing.T, typed any, apiVersion, kind string) Object {
	t.Helper()
	data, err := json.Marshal(typed)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	o := v.(Object)
	o["apiVersion"], o["kind"] = apiVersion, kind
	return o
}

func thereAndBack(t *testing.T, o Object, via string) Object {
	t.Helper()
	c := Converter{Pool: pools}
	there, _, err := c.Convert(t.Context(), o, via)
	if err != nil {
		t.Fatal(err)
	}
	back, _, err := c.Convert(t.Context(), there, o["apiVersion"].(string))
	if err != nil {
		t.Fatal(err)
	}
	return back
}

func TestNothingOfV1beta1IsLost(t *testing.T) {
	for kind, c := range map[string]struct {
		group string
		fresh func() any
	}{
		"NodePool":     {groupCore, func() any { return &karpv1beta1.NodePool{} }},
		"NodeClaim":    {groupCore, func() any { return &karpv1beta1.NodeClaim{} }},
		"EC2NodeClass": {groupAWS, func() any { return &awsv1beta1.EC2NodeClass{} }},
	} {
		t.Run(kind, func(t *testing.T) {
			for seed := range int64(roundTrips) {
				typed := c.fresh()
				filler(seed).Fill(typed)
				prepare(typed)
				o := tree(t, typed, c.group+"/v1beta1", kind)
				if diff := cmp.Diff(o, thereAndBack(t, o, c.group+"/v1")); diff != "" {
					t.Fatalf("seed %d (-want +got):\n%s", seed, diff)
				}
			}
		})
	}
}

// prepare fills what the CRD requires.
func prepare(typed any) {
	switch o := typed.(type) {
	case *karpv1beta1.NodePool:
		o.Spec.Template.Spec.Resources = nil // must be empty, and empty is nothing
		if o.Spec.Template.Spec.NodeClassRef == nil {
			o.Spec.Template.Spec.NodeClassRef = &karpv1beta1.NodeClassReference{Name: "n"}
		}
		if o.Spec.Disruption.ConsolidateAfter.IsZero() && o.Spec.Disruption.ConsolidationPolicy != "WhenUnderutilized" {
			o.Spec.Disruption.ConsolidateAfter = karpv1.NewDuration(time.Minute)
		}
	case *karpv1beta1.NodeClaim:
		if o.Spec.NodeClassRef == nil {
			o.Spec.NodeClassRef = &karpv1beta1.NodeClassReference{Name: "n"}
		}
	case *karpv1.NodePool:
		if o.Spec.Template.Spec.NodeClassRef == nil {
			o.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: groupAWS, Kind: "EC2NodeClass", Name: "n"}
		}
	case *karpv1.NodeClaim:
		if o.Spec.NodeClassRef == nil {
			o.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: groupAWS, Kind: "EC2NodeClass", Name: "n"}
		}
	}
}

func TestOfV1OnlyTheNotExpressibleIsLost(t *testing.T) {
	for kind, c := range map[string]struct {
		group string
		fresh func() any
	}{
		"NodePool":     {groupCore, func() any { return &karpv1.NodePool{} }},
		"NodeClaim":    {groupCore, func() any { return &karpv1.NodeClaim{} }},
		"EC2NodeClass": {groupAWS, func() any { return &awsv1.EC2NodeClass{} }},
	} {
		t.Run(kind, func(t *testing.T) {
			for seed := range int64(roundTrips) {
				typed := c.fresh()
				filler(seed).Fill(typed)
				prepare(typed)
				o := tree(t, typed, c.group+"/v1", kind)
				want := lost(clone(o).(Object))
				back := thereAndBack(t, o, c.group+"/v1beta1")
				if kind == "NodeClaim" { // the time is the NodePool's, of which there is none
					back["spec"].(Object)["expireAfter"] = nil
				}
				if diff := cmp.Diff(want, withoutReference(back)); diff != "" {
					t.Fatalf("seed %d (-want +got):\n%s", seed, diff)
				}
			}
		})
	}
}

// withoutReference removes the one annotation that the way through v1beta1 leaves behind.
func withoutReference(o Object) Object {
	meta := o["metadata"].(Object)
	if a, ok := meta["annotations"].(Object); ok {
		if delete(a, NodeClassReferenceAnnotation); len(a) == 0 {
			delete(meta, "annotations")
		}
	}
	return o
}

// lost is the object without what the reference lists as not expressible in v1beta1 (api §5).
func lost(o Object) Object {
	spec := o["spec"].(Object)
	switch o["kind"] {
	case "NodePool":
		d := spec["disruption"].(Object)
		if d["consolidationPolicy"] == underV1 {
			d["consolidateAfter"] = "0s"
		}
		budgets, _ := d["budgets"].([]any)
		for _, b := range budgets {
			delete(b.(Object), "reasons")
		}
		delete(spec["template"].(Object)["spec"].(Object), "terminationGracePeriod")
	case "NodeClaim":
		delete(spec, "terminationGracePeriod")
		spec["expireAfter"] = nil
		delete(o["status"].(Object), "lastPodEventTime")
	case "EC2NodeClass":
		delete(spec, "kubelet")
		if terms, _ := spec["amiSelectorTerms"].([]any); terms == nil && spec["amiFamily"] != "Custom" {
			// A v1 class without terms is not valid: the family's newest image is what v1beta1 makes of it.
			spec["amiSelectorTerms"] = []any{Object{"alias": strings.ToLower(spec["amiFamily"].(string)) + "@latest"}}
			delete(spec, "amiFamily")
		}
	}
	return o
}

// answersOrRefuses converts an object, which may be anything, there and back again and again, and wants its
// input left alone and the conversions to come to rest.
func answersOrRefuses(t *testing.T, o Object, to string) {
	t.Helper()
	first, c := clone(o), Converter{Pool: pools}
	var rounds [3]Object
	for i := range rounds {
		before := clone(o)
		out, _, err := c.Convert(t.Context(), o, to)
		if diff := cmp.Diff(before, any(o)); diff != "" {
			t.Fatalf("input changed:\n%s", diff)
		}
		if err != nil || out["apiVersion"] == o["apiVersion"] {
			return
		}
		if out["apiVersion"] != to {
			t.Fatalf("apiVersion is %v, want %s", out["apiVersion"], to)
		}
		rounds[i] = clone(out).(Object)
		if o, _, err = c.Convert(t.Context(), out, fmt.Sprint(o["apiVersion"])); err != nil {
			return // nothing the API server would have let in
		}
	}
	if diff := cmp.Diff(rounds[1], rounds[2]); diff != "" {
		t.Fatalf("%v there, back and there again:\n%s", first, diff)
	}
}

// FuzzConvert: for any JSON, conversion returns a result or an error.
func FuzzConvert(f *testing.F) {
	for _, c := range oneWay {
		data, err := yaml.YAMLToJSON([]byte(c.from))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data), c.to)
	}
	f.Fuzz(func(t *testing.T, text, to string) {
		var v any
		if Unmarshal([]byte(text), &v) != nil {
			return
		}
		if o, ok := v.(Object); ok {
			answersOrRefuses(t, o, to)
		}
	})
}

// oddValues stand where something else is expected.
var oddValues = []string{`null`, `""`, `"Never"`, `"1.5"`, `1`, `-1`, `true`, `[]`, `[null]`, `["x"]`, `{}`, `{"":null}`, `{"name":"n","kind":1}`}

// Every value of every object in turn is another one than the CRD lets in.
func TestWhatNoCRDLetsInIsAnsweredOrRefused(t *testing.T) {
	for sentence, c := range oneWay {
		t.Run(sentence, func(t *testing.T) {
			for _, odd := range oddValues {
				for at := 0; ; at++ {
					o, rest := object(t, c.from), at
					var v any
					if err := Unmarshal([]byte(odd), &v); err != nil {
						t.Fatal(err)
					}
					replaced := replaceValue(o, v, &rest).(Object)
					if rest >= 0 {
						break
					}
					answersOrRefuses(t, replaced, c.to)
				}
			}
		})
	}
}

// replaceValue puts v in the place of the value that *at counts down to, in the order of keys; *at is
// negative if there was one.
func replaceValue(in, v any, at *int) any {
	each := func(have any) any {
		if *at--; *at == -1 {
			return v
		}
		return replaceValue(have, v, at)
	}
	switch x := in.(type) {
	case Object:
		for _, key := range slices.Sorted(maps.Keys(x)) {
			x[key] = each(x[key])
		}
	case []any:
		for i := range x {
			x[i] = each(x[i])
		}
	}
	return in
}
