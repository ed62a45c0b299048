package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"

	karpv1 "millwright/api/karpenter/v1"
	wire "millwright/proto"
)

var observedAt = time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)

// filled returns objects with every field set, by seed.
func filled(seed int64, k Kind) any {
	object := newObject(k)
	filler := randfill.NewWithSeed(seed).NilChance(0.2).NumElements(1, 3).MaxDepth(20).Funcs(
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewMilliQuantity(c.Int63n(1e6), resource.DecimalSI)
		},
		func(t *metav1.Time, c randfill.Continue) { *t = metav1.Unix(c.Int63n(2e9), 0) },
		func(t *metav1.MicroTime, c randfill.Continue) { *t = metav1.NewMicroTime(time.Unix(c.Int63n(2e9), 0)) },
		func(t *time.Time, c randfill.Continue) { *t = time.Unix(c.Int63n(2e9), 0).UTC() },
		func(s *intstr.IntOrString, c randfill.Continue) { *s = intstr.FromString("50%") },
		func(f *metav1.FieldsV1, c randfill.Continue) { f.SetRawBytes([]byte("{}")) },
		func(d *metav1.Duration, c randfill.Continue) { d.Duration = time.Duration(c.Int63n(1e6)) * time.Second },
		func(m *metav1.TypeMeta, c randfill.Continue) {}, // the kind says it; protobuf does not carry it
		func(d *karpv1.NillableDuration, c randfill.Continue) {},
	)
	filler.Fill(object)
	return object
}

func upsert(k Kind, object any) Observation {
	return Observation{
		Epoch: 7, Counter: 9, Kind: k, Op: OpUpsert, UID: "uid-1", Name: "default/web", ResourceVersion: "42",
		ObservedAt: observedAt, Object: object,
	}
}

func TestRoundTripOfEveryKind(t *testing.T) {
	for _, k := range append(KubeKinds(), AWSKinds()...) {
		t.Run(k.String(), func(t *testing.T) {
			for seed := range int64(20) {
				checkRoundTrip(t, upsert(k, filled(seed, k)))
			}
			for _, op := range []Op{OpDelete, OpUnreadable} {
				o := upsert(k, nil)
				o.Op = op
				checkRoundTrip(t, o)
			}
		})
	}
}

// checkRoundTrip compares encodings: nil and empty lists are one on the wire. The text of the object shows
// that values, not only lengths, survive.
func checkRoundTrip(t *testing.T, o Observation) {
	t.Helper()
	data, err := Encode(o)
	if err != nil {
		t.Fatal(err)
	}
	back, err := Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Encode(back)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(data, again) {
		t.Fatalf("encoding changed after decoding %s", label(o))
	}
	want, _ := json.Marshal(o.Object)
	got, _ := json.Marshal(back.Object)
	if !bytes.Equal(want, got) {
		at := 0
		for at < min(len(want), len(got)) && want[at] == got[at] {
			at++
		}
		t.Fatalf("object changed at byte %d:\n got …%.200s\nwant …%.200s", at, got[max(0, at-80):], want[max(0, at-80):])
	}
	if o.Object, back.Object = nil, nil; o != back {
		t.Fatalf("envelope changed: got %+v, want %+v", back, o)
	}
}

// A budget without reasons bounds all of them, one with an empty list bounds none: nothing on the way may mix
// them up. The rules: disruption §4.
func TestAnEmptyListOfReasonsStaysOne(t *testing.T) {
	var pool karpv1.NodePool
	if err := json.Unmarshal([]byte(`{"spec": {"disruption": {"budgets": [{"nodes": "0", "reasons": []}, {"nodes": "1"}]}}}`), &pool); err != nil {
		t.Fatal(err)
	}
	data, err := Encode(upsert(KindNodePool, &pool))
	if err != nil {
		t.Fatal(err)
	}
	o, err := Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	b := o.Object.(*karpv1.NodePool).Spec.Disruption.Budgets
	if b[0].Reasons == nil || len(b[0].Reasons) != 0 || b[1].Reasons != nil {
		t.Errorf("reasons %#v and %#v, want an empty list and none", b[0].Reasons, b[1].Reasons)
	}
}

func TestRoundTripOfMarks(t *testing.T) {
	for _, op := range []Op{OpResyncBegin, OpResyncEnd} {
		checkRoundTrip(t, Observation{Epoch: 1, Counter: 1, Op: op, ObservedAt: observedAt})
		checkRoundTrip(t, Observation{Epoch: 1, Counter: 2, Op: op})
	}
	beat := &Heartbeat{Progress: map[string]string{"Pod": "17", "Node": "18"}}
	checkRoundTrip(t, Observation{Epoch: 1, Counter: 2, Op: OpHeartbeat, ObservedAt: observedAt, Object: beat})
}

func TestDecodeRefuses(t *testing.T) {
	pod, _ := (&corev1.Pod{}).Marshal()
	cases := map[string]struct {
		w    *wire.Observation
		want string
	}{
		"an unknown kind":             {&wire.Observation{Epoch: 3, Counter: 9, Kind: 77, Op: 1, Name: "a/b", Object: pod}, "unknown kind 77"},
		"a kind that overflows":       {&wire.Observation{Epoch: 3, Kind: 257, Op: 1, Object: pod}, "unknown kind 257"},
		"an unknown op":               {&wire.Observation{Epoch: 3, Kind: 1, Op: 99, Object: pod}, "unknown op 99"},
		"an op that overflows":        {&wire.Observation{Epoch: 3, Kind: 1, Op: 257, Object: pod}, "unknown op 257"},
		"epoch zero":                  {&wire.Observation{Kind: 1, Op: 1, Object: pod}, "epoch is zero"},
		"an upsert without object":    {&wire.Observation{Epoch: 3, Kind: 1, Op: 1, Name: "a/b"}, "object is missing"},
		"a deletion with object":      {&wire.Observation{Epoch: 3, Kind: 1, Op: 2, Object: pod}, "carries no object"},
		"a resync mark with a kind":   {&wire.Observation{Epoch: 3, Kind: 1, Op: 3}, "does not go with kind Pod"},
		"an upsert of nothing":        {&wire.Observation{Epoch: 3, Op: 1, Object: pod}, "does not go with kind None"},
		"an object that is not a Pod": {&wire.Observation{Epoch: 3, Kind: 1, Op: 1, Name: "a/b", Object: []byte("garbage")}, `upsert of Pod "a/b" (epoch 3, counter 0)`},
		"JSON cut short":              {&wire.Observation{Epoch: 3, Kind: 4, Op: 1, Object: []byte(`{"spec":`)}, "unexpected end of JSON"},
		"an object over the bound":    {&wire.Observation{Epoch: 3, Kind: 1, Op: 1, Object: make([]byte, MaxObjectBytes+1)}, "too large"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			data, err := proto.Marshal(c.w)
			if err != nil {
				t.Fatal(err)
			}
			if _, err = Decode(data); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got error %v, want %q", err, c.want)
			}
		})
	}
}

func TestOfAnUnknownKindAllButTheObjectIsDecoded(t *testing.T) {
	w := &wire.Observation{Epoch: 3, Counter: 9, Kind: 77, Op: 1, Uid: "u", Name: "a/b", ResourceVersion: "7", ObservedAt: observedAt.UnixNano(), Object: []byte("{}")}
	data, err := proto.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	o, err := Decode(data)
	want := Observation{Epoch: 3, Counter: 9, Kind: 77, Op: OpUpsert, UID: "u", Name: "a/b", ResourceVersion: "7", ObservedAt: observedAt}
	if !errors.Is(err, ErrUnknownKind) || !reflect.DeepEqual(o, want) {
		t.Errorf("got %+v, %v", o, err)
	}
	w.Kind = 257 // it would be taken for a Pod
	if data, err = proto.Marshal(w); err != nil {
		t.Fatal(err)
	}
	if o, err := Decode(data); err == nil || errors.Is(err, ErrUnknownKind) || o.Epoch != 0 {
		t.Errorf("of a kind that overflows: %+v, %v", o, err)
	}
}

func TestDecodeRefusesBytesThatAreNoEnvelope(t *testing.T) {
	for _, data := range [][]byte{nil, {0xff}, []byte("hello"), {0x08}, {0x4a, 0x05, 0x01}, {0x32, 0x01, 0xff}} {
		if _, err := Decode(data); err == nil {
			t.Errorf("decoded %x", data)
		}
	}
}

func TestEncodeRefuses(t *testing.T) {
	cases := map[string]struct {
		change func(*Observation)
		want   string
	}{
		"epoch zero":            {func(o *Observation) { o.Epoch = 0 }, "epoch is zero"},
		"an unknown kind":       {func(o *Observation) { o.Kind = 99 }, "unknown kind 99"},
		"an unknown op":         {func(o *Observation) { o.Op = 9 }, "unknown op 9"},
		"a foreign type":        {func(o *Observation) { o.Object = &corev1.Node{} }, "object is *v1.Node, want *v1.Pod"},
		"a value for a pointer": {func(o *Observation) { o.Object = corev1.Pod{} }, "object is v1.Pod, want *v1.Pod"},
		"no object":             {func(o *Observation) { o.Object = nil }, "object is <nil>, want *v1.Pod"},
		"an object to delete":   {func(o *Observation) { o.Op = OpDelete }, "carries no object"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := upsert(KindPod, &corev1.Pod{})
			c.change(&o)
			if _, err := Encode(o); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got error %v, want %q", err, c.want)
			}
		})
	}
}

func TestEncodeSaysThatAnObjectIsTooLarge(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: strings.Repeat("x", MaxObjectBytes)}}
	if _, err := Encode(upsert(KindPod, pod)); !errors.Is(err, ErrTooLarge) {
		t.Fatalf("got %v, want ErrTooLarge", err)
	}
}

func TestCatalogNeverTravelsInItsReference(t *testing.T) {
	ref := &CatalogRef{NodeClass: "default", Hash: "00", Catalog: &Catalog{NodeClass: "travelled"}}
	data, err := Encode(upsert(KindCatalog, ref))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(data, []byte("travelled")) {
		t.Fatal("the catalogue is in the message")
	}
}

func TestEveryKindHasNameTypeAndInverse(t *testing.T) {
	for k := range 256 {
		kind := Kind(k)
		_, named := kindNames[kind]
		object := newObject(kind)
		if named != (object != nil) {
			t.Errorf("kind %d: named %v, object %T", k, named, object)
		}
		if back, ok := kindOf(object); named && (!ok || back != kind) {
			t.Errorf("kindOf(%T) = %s, want %s", object, back, kind)
		}
	}
}

func TestEnvelopeMatchesGeneratedCode(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		w := wire.Observation{
			Epoch: random.Uint64(), Counter: random.Uint64N(300), Kind: random.Uint32N(40), Op: random.Uint32N(8),
			Uid: fmt.Sprint(random.Uint64N(3)), Name: fmt.Sprint(random.Uint64()), ResourceVersion: fmt.Sprint(random.Uint64N(9)),
			ObservedAt: int64(random.Uint64()), Object: []byte(fmt.Sprint(random.Uint64())),
		}
		data, _ := proto.Marshal(&w)
		data = protowire.AppendTag(data, 30, protowire.BytesType)
		data = protowire.AppendBytes(data, []byte("a later version's field"))
		e, err := parseEnvelope(data)
		if err != nil {
			t.Fatal(err)
		}
		got := []any{e.epoch, e.counter, uint32(e.kind), uint32(e.op), string(e.uid), string(e.name), string(e.version), e.observedAt, string(e.object)}
		want := []any{w.Epoch, w.Counter, w.Kind, w.Op, w.Uid, w.Name, w.ResourceVersion, w.ObservedAt, string(w.Object)}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}

// TestEncodeMatchesGeneratedCode: whoever has only the .proto file reads the same.
func TestEncodeMatchesGeneratedCode(t *testing.T) {
	for _, k := range append(KubeKinds(), AWSKinds()...) {
		o := upsert(k, filled(1, k))
		data, err := Encode(o)
		if err != nil {
			t.Fatal(err)
		}
		var w wire.Observation
		if err := proto.Unmarshal(data, &w); err != nil {
			t.Fatal(err)
		}
		again, err := proto.MarshalOptions{Deterministic: true}.Marshal(&w)
		if err != nil || !bytes.Equal(data, again) {
			t.Fatalf("%s: the generated code encodes it otherwise (%v)", k, err)
		}
		if w.Epoch != o.Epoch || w.Counter != o.Counter || w.Kind != uint32(k) || w.Op != uint32(o.Op) || w.Name != o.Name || w.ObservedAt != o.ObservedAt.UnixNano() {
			t.Fatalf("%s: envelope %+v", k, &w)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, k := range append(KubeKinds(), AWSKinds()...) {
		data, err := Encode(upsert(k, filled(int64(k), k)))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := Decode(data)
		if err != nil {
			return
		}
		if _, err := Encode(o); err != nil && !errors.Is(err, ErrTooLarge) {
			t.Fatalf("decoded what cannot be encoded: %v", err)
		}
	})
}
