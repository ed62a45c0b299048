package events_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"testing/iotest"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"

	"millwright/events"
	"millwright/events/membus"
	wire "millwright/proto"
)

func publish(t *testing.T, s events.Stream, o events.Observation) {
	t.Helper()
	data, err := events.Encode(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Publish(t.Context(), data); err != nil {
		t.Fatal(err)
	}
}

func catalog(i int) *events.Catalog {
	return &events.Catalog{NodeClass: "default", Generation: int64(i), InstanceTypes: []events.CatalogInstanceType{{Name: "m5.large"}}}
}

func catalogObservation(ref *events.CatalogRef) events.Observation {
	return events.Observation{Epoch: 1, Counter: 1, Kind: events.KindCatalog, Op: events.OpUpsert, Name: ref.NodeClass, Object: ref}
}

func TestFoldPassesOverWhatItCannotDecodeAndSaysWhere(t *testing.T) {
	s := membus.New()
	publish(t, s, events.Observation{Epoch: 1, Counter: 1, Op: events.OpResyncBegin})
	if err := s.Publish(t.Context(), []byte("garbage")); err != nil {
		t.Fatal(err)
	}
	publish(t, s, events.Observation{Epoch: 1, Counter: 3, Kind: events.KindPod, Op: events.OpUpsert, Object: &corev1.Pod{}})
	var refused, applied []uint64
	enough := errors.New("enough")
	err := events.Fold(t.Context(), s, 1, events.Folder{
		Apply: func(sequence uint64, o events.Observation) error {
			if applied = append(applied, sequence); o.Op == events.OpUpsert {
				return enough
			}
			return nil
		},
		Refused: func(sequence uint64, err error) { refused = append(refused, sequence) },
	})
	if !errors.Is(err, enough) || !slices.Equal(applied, []uint64{1, 3}) || !slices.Equal(refused, []uint64{2}) {
		t.Fatalf("error %v, applied %v, refused %v", err, applied, refused)
	}
}

// ofALaterVersion is a message of a kind that this version does not know.
func ofALaterVersion(t *testing.T, epoch, counter uint64) []byte {
	t.Helper()
	data, err := proto.Marshal(&wire.Observation{Epoch: epoch, Counter: counter, Kind: 200, Op: 1, Name: "a", Object: []byte("{}")})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestFoldAppliesWhatIsOfAnUnknownKindWithoutItsObject(t *testing.T) {
	s := membus.New()
	if err := errors.Join(s.Publish(t.Context(), ofALaterVersion(t, 1, 1)), s.Flush(t.Context())); err != nil {
		t.Fatal(err)
	}
	enough, refused := errors.New("enough"), 0
	err := events.Fold(t.Context(), s, 1, events.Folder{
		Apply: func(_ uint64, o events.Observation) error {
			if o.Kind != 200 || o.Counter != 1 || o.Object != nil {
				t.Errorf("applied %+v", o)
			}
			return enough
		},
		Refused: func(_ uint64, err error) {
			if refused++; !errors.Is(err, events.ErrUnknownKind) {
				t.Error(err)
			}
		},
	})
	if !errors.Is(err, enough) || refused != 1 {
		t.Errorf("error %v, refused %d", err, refused)
	}
}

func TestFoldResolvesCataloguesAndReportsLostAndDamagedOnes(t *testing.T) {
	s := membus.New()
	var refs []*events.CatalogRef
	for generation := range 3 {
		ref, err := events.StoreCatalog(t.Context(), s.Blobs(), catalog(101+generation))
		if err != nil {
			t.Fatal(err)
		}
		publish(t, s, catalogObservation(ref))
		refs = append(refs, ref)
	}
	if err := errors.Join(
		s.Blobs().Delete(t.Context(), events.CatalogBlob(refs[1].Hash)),
		s.Blobs().Put(t.Context(), events.CatalogBlob(refs[2].Hash), []byte("{}")),
	); err != nil {
		t.Fatal(err)
	}
	var got []*events.CatalogRef
	refused := map[uint64]error{}
	enough := errors.New("enough")
	err := events.Fold(t.Context(), s, 1, events.Folder{
		Apply: func(sequence uint64, o events.Observation) error {
			if got = append(got, o.Object.(*events.CatalogRef)); len(got) == len(refs) {
				return enough
			}
			return nil
		},
		Refused: func(sequence uint64, err error) { refused[sequence] = err },
	})
	if !errors.Is(err, enough) {
		t.Fatal(err)
	}
	if got[0].Catalog == nil || got[0].Catalog.Generation != 101 || got[1].Catalog != nil || got[2].Catalog != nil {
		t.Fatalf("resolved %+v, %+v, %+v", got[0].Catalog, got[1].Catalog, got[2].Catalog)
	}
	if len(refused) != 2 || !errors.Is(refused[2], events.ErrNotFound) || !errors.Is(refused[3], events.ErrDamaged) {
		t.Fatalf("refused %v", refused)
	}
}

func TestResolveCatalogRefusesADamagedBlob(t *testing.T) {
	s := membus.New()
	ref, err := events.StoreCatalog(t.Context(), s.Blobs(), catalog(103))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Blobs().Put(t.Context(), events.CatalogBlob(ref.Hash), []byte(`{"nodeClass":"forged"}`)); err != nil {
		t.Fatal(err)
	}
	o := catalogObservation(&events.CatalogRef{NodeClass: "default", Hash: ref.Hash})
	if err := events.ResolveCatalog(t.Context(), s.Blobs(), &o, nil); !errors.Is(err, events.ErrDamaged) {
		t.Fatalf("got %v", err)
	}
}

func TestWhatAReferenceLeadsToIsNotReadAgainWhileItIsHeld(t *testing.T) {
	s := membus.New()
	for hash, read := range map[string]bool{"held": false, "other": true} {
		o := catalogObservation(&events.CatalogRef{NodeClass: "default", Hash: hash})
		err := events.ResolveCatalog(t.Context(), s.Blobs(), &o, func(ref *events.CatalogRef) bool { return ref.Hash == "held" })
		if got := errors.Is(err, events.ErrNotFound); got != read {
			t.Errorf("%s: %v", hash, err)
		}
	}
}

func TestALostCatalogueIsStoredAgainFromItsReference(t *testing.T) {
	s := membus.New()
	ref, err := events.StoreCatalog(t.Context(), s.Blobs(), catalog(104))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Blobs().Delete(t.Context(), events.CatalogBlob(ref.Hash)); err != nil {
		t.Fatal(err)
	}
	if err := events.StoreCatalogAgain(t.Context(), s.Blobs(), ref); err != nil {
		t.Fatal(err)
	}
	o := catalogObservation(&events.CatalogRef{NodeClass: "default", Hash: ref.Hash})
	if err := events.ResolveCatalog(t.Context(), s.Blobs(), &o, nil); err != nil {
		t.Fatal(err)
	}
	if got := o.Object.(*events.CatalogRef).Catalog; got.Generation != 104 || len(got.InstanceTypes) != 1 {
		t.Errorf("got %+v", got)
	}
}

func TestLatestCheckpointIsOneTheStreamGoesOnFrom(t *testing.T) {
	bus := membus.NewBus()
	s := bus.Connect(8)
	for range 10 {
		if err := s.Publish(t.Context(), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	bus.Discard(5)
	state, _ := s.State(t.Context())
	put := func(incarnation string, sequence uint64) {
		t.Helper()
		if err := s.Blobs().Put(t.Context(), events.CheckpointName(incarnation, sequence), fmt.Append(nil, sequence)); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(want uint64) {
		t.Helper()
		data, got, err := events.LatestCheckpoint(t.Context(), s.Blobs(), state, state.Last, io.ReadAll, nil)
		if want == 0 && errors.Is(err, events.ErrNotFound) {
			return
		}
		if err != nil || got.Sequence != want || string(data) != fmt.Sprint(want) {
			t.Fatalf("got %d (%q, %v), want %d", got.Sequence, data, err, want)
		}
	}
	put("another", 8)
	put(state.Incarnation, 3) // message 4 is gone
	put(state.Incarnation, 11)
	if err := s.Blobs().Put(t.Context(), events.CheckpointPrefix(state.Incarnation)+"7", nil); err != nil {
		t.Fatal(err)
	}
	expect(0)
	put(state.Incarnation, 4)
	expect(4)
	put(state.Incarnation, 9)
	expect(9)
	if _, got, err := events.LatestCheckpoint(t.Context(), s.Blobs(), state, 8, io.ReadAll, nil); err != nil || got.Sequence != 4 {
		t.Fatalf("before 8: %d, %v", got.Sequence, err)
	}
}

// TestDamagedCheckpointsArePassedOver: those cut, changed, or refused by their reader, with and without
// compression. An error of the store is returned instead, for the store may answer later.
func TestDamagedCheckpointsArePassedOver(t *testing.T) {
	bus := membus.NewBus()
	s := bus.Connect(8)
	for range 10 {
		if err := s.Publish(t.Context(), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	state, _ := s.State(t.Context())
	content := bytes.Repeat([]byte("the whole content "), 10_000)
	name, stored, err := events.WriteCheckpoint(t.Context(), s.Blobs(), events.Position{Incarnation: state.Incarnation, Sequence: 4}, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
	if err != nil || name != events.CheckpointName(state.Incarnation, 4) {
		t.Fatal(name, err)
	}
	packed, err := s.Blobs().Get(t.Context(), name)
	if err != nil || int64(len(packed)) != stored || len(packed) > len(content)/10 {
		t.Fatalf("%d bytes stored, %d said, %v", len(packed), stored, err)
	}
	read := func(r io.Reader) (string, error) {
		b, err := io.ReadAll(r)
		if err == nil && !bytes.Equal(b, content) {
			err = errors.New("refused")
		}
		return string(b), err
	}
	flipped := bytes.Clone(packed)
	flipped[len(flipped)/2] ^= 1
	for what, bad := range map[string][]byte{"cut": packed[:len(packed)-1], "changed": flipped, "not compressed": content[1:], "empty": nil} {
		if err := s.Blobs().Put(t.Context(), events.CheckpointName(state.Incarnation, 9), bad); err != nil {
			t.Fatal(err)
		}
		var passed []uint64
		got, at, err := events.LatestCheckpoint(t.Context(), s.Blobs(), state, state.Last, read, func(c events.Checkpoint, err error) {
			passed = append(passed, c.Sequence)
			if !errors.Is(err, events.ErrDamaged) {
				t.Errorf("%s: passed over for %v", what, err)
			}
		})
		if err != nil || at.Sequence != 4 || got != string(content) || !slices.Equal(passed, []uint64{9}) {
			t.Errorf("%s: at %d, passed %v, %v", what, at.Sequence, passed, err)
		}
	}
	lost := errors.New("connection lost")
	_, _, err = events.LatestCheckpoint(t.Context(), brokenBlobs{s.Blobs(), lost}, state, state.Last, read, func(events.Checkpoint, error) { t.Error("passed over") })
	if !errors.Is(err, lost) || errors.Is(err, events.ErrDamaged) {
		t.Errorf("while the store is away: %v", err)
	}
}

// brokenBlobs fail while they are read.
type brokenBlobs struct {
	events.Blobs
	err error
}

func (b brokenBlobs) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	data, err := b.Get(ctx, name)
	return io.NopCloser(io.MultiReader(bytes.NewReader(data[:len(data)/2]), iotest.ErrReader(b.err))), err
}
