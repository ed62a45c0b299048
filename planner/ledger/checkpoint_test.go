package ledger_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"

	"millwright/planner/ledger"
)

// unpacked is a file of testdata.
func unpacked(t testing.TB, name string) []byte {
	t.Helper()
	packed, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	r, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	data, err := r.DecodeAll(packed, nil)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestCheckpointsOfEarlierProgramsAreRead: the files are checkpoints of one Ledger, each written by a program
// of its time.
func TestCheckpointsOfEarlierProgramsAreRead(t *testing.T) {
	now := unpacked(t, "checkpoint-v4.zst")
	for _, name := range []string{"checkpoint-v3.zst", "checkpoint-v4.zst"} {
		l, err := ledger.Restore(unpacked(t, name))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		data, err := l.Checkpoint()
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(data, now) {
			t.Errorf("%s holds another Ledger", name)
		}
		if len(l.Claims()) < 20 || len(l.Commands()) != 1 || len(l.Drains()) != 1 || len(l.Verdicts()) < 19 || l.Control() == nil ||
			l.Mode("disruptor") != ledger.ModeShadow || !l.HasAdopted("aa") || l.FailingUntil("general").IsZero() || l.HighestPosition("s") == 0 {
			t.Errorf("%s: %d claims, %d commands, %d drains, %d verdicts, control %v", name, len(l.Claims()), len(l.Commands()), len(l.Drains()), len(l.Verdicts()), l.Control())
		}
	}
}

// TestDamagedCheckpointsAreRefused: cut at any place, changed at any place, or with more behind them.
func TestDamagedCheckpointsAreRefused(t *testing.T) {
	whole := unpacked(t, "checkpoint-v4.zst")
	for n := range whole {
		if _, err := ledger.Restore(whole[:n]); err == nil {
			t.Fatalf("restored from %d of %d bytes", n, len(whole))
		}
	}
	if _, err := ledger.Restore(append(bytes.Clone(whole), 0)); err == nil {
		t.Error("restored with a byte too many")
	}
	rapid.Check(t, func(t *rapid.T) {
		bad := bytes.Clone(whole)
		bad[rapid.IntRange(0, len(bad)-1).Draw(t, "at")] ^= byte(rapid.IntRange(1, 255).Draw(t, "with"))
		if _, err := ledger.Restore(bad); err == nil {
			t.Fatal("restored")
		}
	})
}

func TestReadCheckpointReportsWhatItsSourceSays(t *testing.T) {
	broken := errors.New("connection lost")
	whole := unpacked(t, "checkpoint-v4.zst")
	for _, n := range []int{0, 1, 9, 1000, len(whole)} {
		in := io.MultiReader(bytes.NewReader(whole[:n]), iotest.ErrReader(broken))
		if _, err := ledger.ReadCheckpoint(in); !errors.Is(err, broken) {
			t.Errorf("after %d bytes: %v", n, err)
		}
	}
}

func FuzzRestoreNeverPanics(f *testing.F) {
	f.Add(unpacked(f, "checkpoint-v3.zst"))
	f.Add(unpacked(f, "checkpoint-v4.zst"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if l, err := ledger.Restore(data); err == nil {
			l.Claims()
			l.Digest()
		}
	})
}
