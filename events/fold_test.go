package events_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"millwright/events"
	"millwright/events/membus"
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

func TestFoldResolvesCataloguesAndReportsLostOnes(t *testing.T) {
	s := membus.New()
	there, err := events.StoreCatalog(t.Context(), s.Blobs(), catalog(101))
	if err != nil {
		t.Fatal(err)
	}
	gone, err := events.StoreCatalog(t.Context(), s.Blobs(), catalog(102))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Blobs().Delete(t.Context(), events.CatalogBlob(gone.Hash)); err != nil {
		t.Fatal(err)
	}
	publish(t, s, catalogObservation(there))
	publish(t, s, catalogObservation(gone))
	var got []*events.CatalogRef
	refused := map[uint64]error{}
	enough := errors.New("enough")
	err = events.Fold(t.Context(), s, 1, events.Folder{
		Apply: func(sequence uint64, o events.Observation) error {
			if got = append(got, o.Object.(*events.CatalogRef)); len(got) == 2 {
				return enough
			}
			return nil
		},
		Refused: func(sequence uint64, err error) { refused[sequence] = err },
	})
	if !errors.Is(err, enough) {
		t.Fatal(err)
	}
	if got[0].Catalog == nil || got[0].Catalog.Generation != 101 || got[1].Catalog != nil {
		t.Fatalf("resolved %+v, %+v", got[0].Catalog, got[1].Catalog)
	}
	if len(refused) != 1 || !errors.Is(refused[2], events.ErrNotFound) {
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
	if err := events.ResolveCatalog(t.Context(), s.Blobs(), &o, nil); !errors.Is(err, events.ErrNotFound) {
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
		_, data, got, err := events.LoadLatestCheckpoint(t.Context(), s)
		if want == 0 && errors.Is(err, events.ErrNotFound) {
			return
		}
		if err != nil || got != want || string(data) != fmt.Sprint(want) {
			t.Fatalf("got %d (%q, %v), want %d", got, data, err, want)
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
	if _, _, got, err := events.LoadCheckpointBefore(context.Background(), s.Blobs(), state, 8); err != nil || got != 4 {
		t.Fatalf("before 8: %d, %v", got, err)
	}
}
