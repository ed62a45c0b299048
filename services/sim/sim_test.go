package sim

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"millwright/services/sim/stage"
)

var (
	seed  = flag.Uint64("seed", 0, "simulate this seed only")
	seeds = flag.Int("seeds", 500, "how many seeds to simulate")
	trace = flag.Bool("trace", false, "print everything that happens")
)

// TestMain collects less often: runs are short, keep little, and make much garbage.
func TestMain(m *testing.M) {
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(512 << 20)
	os.Exit(m.Run())
}

func config(n uint64) Config {
	cfg := Config{Seed: n}
	if *trace {
		cfg.Trace = os.Stderr
	}
	return cfg
}

// hold fails the test if a check failed, with the line that does it again.
func hold(t *testing.T, r Result) {
	t.Helper()
	if r.Violation != nil {
		t.Errorf("%v\nagain: go test ./services/sim -run TestSeeds -seed=%d    or: make sim SEEDS=1 FIRST=%d", r.Violation, r.Seed, r.Seed)
	}
}

// Equal seeds give equal histories, line by line: else no seed would do again what it did. The second run has
// others beside it, for what one run shares with another by mistake.
func TestASeedIsOneHistory(t *testing.T) {
	play := func(n uint64) (Result, []byte) {
		var trace bytes.Buffer
		cfg := config(n)
		cfg.Trace = &trace
		return Run(cfg), trace.Bytes()
	}
	for _, n := range []uint64{2, 3, 89} {
		first, traced := play(n)
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			again, retraced := play(n)
			if first.Head != again.Head || first.Stats != again.Stats {
				t.Errorf("%v, then %v", first.Stats, again.Stats)
			}
			a, b := bytes.Split(traced, []byte("\n")), bytes.Split(retraced, []byte("\n"))
			for i := range min(len(a), len(b)) {
				if !bytes.Equal(a[i], b[i]) {
					t.Fatalf("line %d is %q, then %q", i+1, a[i], b[i])
				}
			}
			if len(a) != len(b) {
				t.Errorf("%d lines, then %d", len(a), len(b))
			}
		})
	}
}

func TestWithoutFaults(t *testing.T) {
	n := uint64(1)
	if *seed > 0 {
		n = *seed
	}
	cfg := config(n)
	cfg.Faults = &stage.Faults{}
	began := time.Now()
	r := Run(cfg)
	t.Log(r.Stats, time.Since(began))
	hold(t, r)
}

func TestSeeds(t *testing.T) {
	first, last := uint64(1), uint64(*seeds)
	if *seed > 0 {
		first, last = *seed, *seed
	}
	for n := first; n <= last; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			if !*trace {
				t.Parallel()
			}
			r := Run(config(n))
			t.Logf("%s\n%s", r.Stats, r.Faults)
			hold(t, r)
		})
	}
}

// TestSeedsThatFailed plays the seeds of testdata/seeds.txt.
func TestSeedsThatFailed(t *testing.T) {
	file, err := os.ReadFile("testdata/seeds.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(file)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		text, found, _ := strings.Cut(line, " ")
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			hold(t, Run(config(n)))
			if t.Failed() {
				t.Log("it once found:", strings.TrimSpace(found))
			}
		})
	}
}
