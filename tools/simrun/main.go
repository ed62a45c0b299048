// Command simrun simulates the whole of Millwright under seeded faults, one run per seed, and exits with 1 at
// the first check that fails (with --all: at the end), after printing a command that repeats the run.
//
//	go run ./tools/simrun --seeds 1000 --first 1
//	go run ./tools/simrun --first 207 --trace
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"sync"
	"time"

	"millwright/services/sim"
	"millwright/services/sim/stage"
)

type options struct {
	seeds, first      uint64
	parallel          int
	trace, quiet, all bool
	cpuProfile        string
	memProfile        string
}

func main() {
	o := options{}
	flag.Uint64Var(&o.seeds, "seeds", 1, "how many seeds to run")
	flag.Uint64Var(&o.first, "first", 1, "the first seed")
	flag.IntVar(&o.parallel, "parallel", runtime.NumCPU(), "runs at a time")
	flag.BoolVar(&o.trace, "trace", false, "print everything that happens; one run at a time")
	flag.BoolVar(&o.quiet, "quiet", false, "print only the summary and failures")
	flag.BoolVar(&o.all, "all", false, "go on after a failure, and list all of them")
	flag.StringVar(&o.cpuProfile, "cpuprofile", "", "write a CPU profile to this file")
	flag.StringVar(&o.memProfile, "memprofile", "", "write a profile of all allocations to this file")
	flag.Parse()
	if flag.NArg() > 0 || o.seeds == 0 || o.parallel < 1 {
		flag.Usage()
		os.Exit(2)
	}
	if o.trace {
		o.parallel = 1
	}
	debug.SetGCPercent(-1) // runs are short, keep little, and make much garbage
	debug.SetMemoryLimit(512 << 20)
	stop, err := profile(o)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	held := run(o)
	if err := stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if !held {
		os.Exit(1)
	}
}

// profile starts what was asked for and returns what writes it.
func profile(o options) (stop func() error, err error) {
	if o.cpuProfile != "" {
		f, err := os.Create(o.cpuProfile)
		if err != nil {
			return nil, err
		}
		if err := pprof.StartCPUProfile(f); err != nil {
			return nil, err
		}
	}
	return func() error {
		pprof.StopCPUProfile()
		if o.memProfile == "" {
			return nil
		}
		f, err := os.Create(o.memProfile)
		if err != nil {
			return err
		}
		if err := pprof.Lookup("allocs").WriteTo(f, 0); err != nil {
			return err
		}
		return f.Close()
	}, nil
}

// run reports that every check of every seed held.
func run(o options) bool {
	began := time.Now()
	results := simulate(o)
	var done, failed uint64
	var virtual time.Duration
	total := stage.Stats{}
	for r := range results {
		done++
		virtual += r.Stats.Virtual
		total.Records += r.Stats.Records
		total.Crashes += r.Stats.Crashes
		total.Freezes += r.Stats.Freezes
		total.Replayed += r.Stats.Replayed
		total.Instances += r.Stats.Instances
		total.Consolidated, total.Replacing = total.Consolidated+r.Stats.Consolidated, total.Replacing+r.Stats.Replacing
		if r.Violation != nil {
			fmt.Printf("seed %d failed: %v\nfaults: %s\nagain: make sim SEEDS=1 FIRST=%d    with all that happened: go run ./tools/simrun --first %d --trace\n",
				r.Seed, r.Violation, r.Faults, r.Seed, r.Seed)
			if !o.all {
				return false
			}
			failed++
			continue
		}
		if !o.quiet {
			fmt.Printf("seed %d held: %s\n", r.Seed, r.Stats)
		}
	}
	took := time.Since(began)
	fmt.Printf("%d of %d seeds held in %s (%.1f/s): %s of virtual time, %d records, %d instances, %d consolidations (%d buy nodes), %d crashes, %d freezes, %d decisions replayed\n",
		done-failed, done, took.Round(time.Second), float64(done)/took.Seconds(), virtual.Round(time.Minute), total.Records, total.Instances, total.Consolidated, total.Replacing, total.Crashes, total.Freezes, total.Replayed)
	return failed == 0
}

// simulate runs the seeds on some goroutines and gives the results in the order of seeds. Nobody waits for
// what still runs when the caller stops reading: the process is about to end then.
func simulate(o options) <-chan sim.Result {
	slots := make([]chan sim.Result, o.seeds)
	for i := range slots {
		slots[i] = make(chan sim.Result, 1)
	}
	var next sync.Mutex
	taken := uint64(0)
	for range o.parallel {
		go func() {
			for {
				next.Lock()
				i := taken
				taken++
				next.Unlock()
				if i >= o.seeds {
					return
				}
				cfg := sim.Config{Seed: o.first + i}
				if o.trace {
					cfg.Trace = os.Stdout
				}
				slots[i] <- sim.Run(cfg)
			}
		}()
	}
	ordered := make(chan sim.Result)
	go func() {
		defer close(ordered)
		for _, slot := range slots {
			ordered <- <-slot
		}
	}()
	return ordered
}
