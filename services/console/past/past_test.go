package past

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"millwright/planner/plannertest"
	"millwright/store"
	"millwright/store/audit/subjects"
	"millwright/store/audit/subjects/subjectstest"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Of a log whose beginning was pruned the rest is told, and how much is missing.
func TestALogWhoseBeginningIsGone(t *testing.T) {
	w := subjectstest.New(t)
	for w.Head() < 3000 {
		w.Live()
	}
	through, err := w.Log.Read(t.Context(), 1000, 1)
	check(t, err)
	check(t, w.Log.Compact(t.Context(), store.Head{Seq: through[0].Seq, Hash: through[0].Hash}))
	p := New(t.TempDir(), w.Log.ID(), time.Now)
	check(t, p.catchUp(t.Context(), w.Log))
	if _, covered := p.Covers(w.Head() + 1); !covered || p.Progress() != w.Head() {
		t.Errorf("it has come to record %d of %d", p.Progress(), w.Head())
	}
	last := w.Lives[len(w.Lives)-1]
	if seqs, _ := p.Find([][]string{{"claim/" + last.Claim}}, 0, 100); len(seqs) == 0 {
		t.Error("the last claim is not found")
	}
	if _, _, missed := p.History().Extent(); missed != 999 {
		t.Errorf("%d records were missed", missed)
	}
}

// While its files cannot be written nothing is told that is not so, and once they can be all of it.
func TestADirectoryThatIsNotThere(t *testing.T) {
	w := subjectstest.New(t)
	for w.Head() < subjects.ChunkSize+100 {
		w.Live()
	}
	blocked := filepath.Join(t.TempDir(), "file")
	check(t, os.WriteFile(blocked, nil, 0o600))
	p := New(filepath.Join(blocked, "past"), w.Log.ID(), time.Now)
	if err := p.catchUp(t.Context(), w.Log); err == nil {
		t.Error("it is made below a file")
	}
	if _, covered := p.Covers(1); covered || p.History() != nil || p.Progress() != 0 {
		t.Error("it tells of something")
	}
	check(t, os.Remove(blocked))
	check(t, p.catchUp(t.Context(), w.Log))
	check(t, os.RemoveAll(blocked)) // deleted while it is used
	w.Live()
	check(t, p.catchUp(t.Context(), w.Log))
	if seqs, _ := p.Find([][]string{{"node/" + w.Lives[0].Node}}, 0, 100); len(seqs) != 0 {
		t.Errorf("records %v are found in a file that is gone", seqs)
	}
	check(t, os.MkdirAll(filepath.Join(blocked, "past"), 0o700))
	check(t, p.catchUp(t.Context(), w.Log))
	if seqs, _ := p.Find([][]string{{"node/" + w.Lives[0].Node}}, 0, 100); len(seqs) == 0 || p.Progress() != w.Head() {
		t.Errorf("after it was made again: %v, to record %d of %d", seqs, p.Progress(), w.Head())
	}
	// What was damaged, or is another log's, is made anew.
	check(t, os.WriteFile(p.historyFile(), []byte("nonsense"), 0o600))
	again := New(p.dir, plannertest.LogID, time.Now)
	check(t, again.catchUp(t.Context(), w.Log))
	if again.History() == nil || again.History().Last() != w.Head() {
		t.Error("a damaged history was not added up anew")
	}
}
