package pseudonyms_test

import (
	"bytes"
	"context"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"millwright/planner/plannertest"
	"millwright/store"
	"millwright/store/audit"
	"millwright/store/audit/pseudonyms"
	"millwright/store/audit/recording"
)

// whole is a recording as a log without checkpoints.
type whole struct{ *recording.Recording }

func (whole) Aggregate(context.Context, string) (uint64, error) { return 0, nil }
func (whole) GetBlob(context.Context, string) ([]byte, error)   { return nil, store.ErrNotFound }

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func contentsOf(t *testing.T, log audit.CheckpointLog, stream audit.Stream, within audit.Range) *recording.Contents {
	t.Helper()
	var file bytes.Buffer
	_, err := recording.WriteBundle(t.Context(), &file, log, stream, recording.BundleRequest{From: within.From, To: within.To, Now: plannertest.Start})
	check(t, err)
	b, err := recording.ReadBundle(file.Bytes())
	check(t, err)
	c, err := b.Contents()
	check(t, err)
	return c
}

func TestCorpus(t *testing.T) {
	files, err := filepath.Glob("../testdata/v*/*.rec")
	check(t, err)
	for _, file := range files {
		t.Run(filepath.Base(filepath.Dir(file))+"/"+filepath.Base(file), func(t *testing.T) {
			rec, err := recording.Open(file)
			check(t, err)
			all, err := rec.Read(t.Context(), 1, 1<<20)
			check(t, err)
			c := contentsOf(t, whole{rec}, rec, audit.Range{From: 1, To: uint64(len(all))})
			there, err := audit.Replay(t.Context(), rec, rec, audit.Range{})
			check(t, err)
			renamed, table, err := pseudonyms.Rename(t.Context(), c)
			check(t, err)
			b := renamed.Bundle()
			here, err := audit.Replay(t.Context(), b, b, audit.Range{From: 1, To: uint64(len(all))})
			check(t, err)
			t.Log(there.Counts())
			for _, k := range slices.Sorted(maps.Keys(table)) {
				t.Log("NAME", k, table[k])
			}
			t.Log(here.Counts(), len(table), "names")
			if there.Counts() != here.Counts() || len(here.Divergences) > 0 {
				t.Errorf("%s %v %v", here.Counts(), here.Divergences, renamed.Manifest.Pseudonyms.Withheld)
			}
		})
	}
}
