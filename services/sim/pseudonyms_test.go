package sim

import (
	"bytes"
	"flag"
	"testing"

	"millwright/services/sim/stage"
	"millwright/store/audit"
	"millwright/store/audit/pseudonyms"
	"millwright/store/audit/recording"
)

var renamed = flag.Uint64("renamed", 12, "how many histories to replay with pseudonyms")

// Decisions of all kinds come out with pseudonyms as they did.
func TestHistoriesReplayWithPseudonyms(t *testing.T) {
	planned, kinds := 0, map[string]int{}
	for n := max(1, *seed); *seed == 0 && n <= *renamed || n == *seed; n++ {
		r := Run(config(n))
		hold(t, r)
		there, err := audit.Replay(t.Context(), r.Log, r.Stream, audit.Range{From: 1})
		if err != nil {
			t.Fatal(err)
		}
		var file bytes.Buffer
		_, err = recording.WriteBundle(t.Context(), &file, r.Log, r.Stream, recording.BundleRequest{From: 1, To: r.Head.Seq, Now: stage.Start})
		if err != nil {
			t.Fatal(err)
		}
		whole, err := recording.ReadBundle(file.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		contents, err := whole.Contents()
		if err != nil {
			t.Fatal(err)
		}
		out, _, err := pseudonyms.Rename(t.Context(), contents)
		if err != nil {
			t.Errorf("seed %d: %v", n, err)
			continue
		}
		b := out.Bundle()
		here, err := audit.Replay(t.Context(), b, b, audit.Range{From: 1, To: r.Head.Seq})
		if err != nil {
			t.Fatal(err)
		}
		planned += here.Replayed()
		if here.Counts() != there.Counts() || len(here.Divergences) > 0 {
			t.Errorf("seed %d: %s, with pseudonyms %s, %d divergences: %v", n, there.Counts(), here.Counts(), len(here.Divergences), out.Manifest.Pseudonyms.Withheld)
		}
	}
	t.Log(planned, kinds)
}
