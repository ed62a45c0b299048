package weeks

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// app is a Deployment, or a job that runs again and again.
type app struct {
	name string
	// capacity is the capacity type that its pods ask for.
	capacity string
	asks     amount
	job      bool
	// protected pods may not be moved.
	protected bool
}

// act is one thing that happens to the workload or the hardware.
type act struct {
	at   time.Duration
	kind actKind
	app  int
	// n: replicas of a scaling, pods of a job.
	n int
	// length of a job's pods.
	length time.Duration
}

type actKind int

const (
	actScale actKind = iota
	actJob
	actRollout
	actPrices
	// actHardware: some spot instances are taken back, and some nodes fail.
	actHardware
)

// Script is what happens in one week.
type Script struct {
	Seed   uint64
	Length time.Duration
	times  int
	apps   []app
	acts   []act
}

const (
	day           = 24 * time.Hour
	scaleEvery    = 15 * time.Minute
	hardwareEvery = 10 * time.Minute
	// spotLife and nodeLife are mean lives, of a spot instance and of any node; expireAfter is the longest.
	spotLife    = 40 * time.Hour
	nodeLife    = 500 * time.Hour
	expireAfter = 72 * time.Hour
)

// NewScript draws a week, or its first days.
func NewScript(seed uint64, length time.Duration) *Script { return NewLargeScript(seed, length, 1) }

// NewLargeScript is NewScript with that many times as many pods.
func NewLargeScript(seed uint64, length time.Duration, times int) *Script {
	s := &Script{Seed: seed, Length: length, times: times}
	rng := rand.New(rand.NewPCG(seed, 7))
	s.services(rng)
	s.jobs(rng)
	s.rollouts(rng)
	for at := pricesEvery; at < length; at += pricesEvery {
		s.add(act{at: at, kind: actPrices})
	}
	for at := hardwareEvery; at < length; at += hardwareEvery {
		s.add(act{at: at, kind: actHardware})
	}
	slices.SortStableFunc(s.acts, func(a, b act) int { return cmp.Compare(a.at, b.at) })
	return s
}

func (s *Script) add(a act) {
	if a.at < s.Length {
		s.acts = append(s.acts, a)
	}
}

// sizes of containers, in millicores and MiB.
var sizes = []amount{{100, 256, 1}, {250, 512, 1}, {500, 1 << 10, 1}, {500, 3 << 10, 1}, {1000, 2 << 10, 1}, {1000, 6 << 10, 1}, {1500, 4 << 10, 1}, {2000, 4 << 10, 1}}

// services are eight that follow day, night and weekend, and four that keep their size.
func (s *Script) services(rng *rand.Rand) {
	for i := range 12 {
		capacity := onDemand
		if i%3 == 2 {
			capacity = spot
		}
		a := app{name: fmt.Sprintf("web-%02d", i), capacity: capacity, asks: sizes[rng.IntN(len(sizes))]}
		peak := float64(s.times * (8 + rng.IntN(int(30_000/(a.asks.cpu+500)))))
		night, hour, noise := 0.25+0.3*rng.Float64(), 12+3*rng.Float64(), 0.02+0.05*rng.Float64()
		if i >= 8 {
			a.name, night, noise, peak = fmt.Sprintf("base-%02d", i), 1, 0, peak/2
		}
		s.apps = append(s.apps, a)
		last := 0
		for at := time.Duration(0); at < s.Length; at += scaleEvery {
			share := night + (1-night)*daylight(at, hour)
			n := max(1, int(math.Round(peak*share*(1+noise*rng.NormFloat64()))))
			if n != last {
				s.add(act{at: at + time.Duration(i)*7*time.Second, kind: actScale, app: i, n: n})
			}
			last = n
		}
	}
}

// daylight is 0 at night and 1 at a service's busiest hour; weekends, the last two days, reach 0.5.
func daylight(at time.Duration, hour float64) float64 {
	h := math.Mod(at.Hours(), 24)
	light := math.Max(0, math.Cos((h-hour)/24*2*math.Pi)*0.65+0.35)
	if at >= 5*day {
		light /= 2
	}
	return light
}

// jobs: small ones every quarter of an hour, batches by the hour, and two long runs a night.
func (s *Script) jobs(rng *rand.Rand) {
	for _, j := range []struct {
		name      string
		every, at time.Duration
		pods      int
		asks      amount
		length    time.Duration
		protected bool
		capacity  string
	}{
		{name: "tick", every: 15 * time.Minute, at: 3 * time.Minute, pods: 3, asks: sizes[1], length: 2 * time.Minute, capacity: onDemand},
		{name: "hourly", every: time.Hour, at: 10 * time.Minute, pods: 10, asks: sizes[4], length: 12 * time.Minute, capacity: spot},
		{name: "report", every: 6 * time.Hour, at: 2 * time.Hour, pods: 12, asks: sizes[3], length: 35 * time.Minute, capacity: spot},
		{name: "nightly", every: day, at: 90 * time.Minute, pods: 20, asks: sizes[6], length: 100 * time.Minute, protected: true, capacity: spot},
		{name: "backup", every: day, at: 3 * time.Hour, pods: 6, asks: sizes[5], length: 50 * time.Minute, protected: true, capacity: onDemand},
	} {
		s.apps = append(s.apps, app{name: j.name, capacity: j.capacity, asks: j.asks, job: true, protected: j.protected})
		for at := j.at; at < s.Length; at += j.every {
			factor := 0.6 + 0.8*rng.Float64()
			s.add(act{at: at, kind: actJob, app: len(s.apps) - 1, n: max(1, int(float64(s.times*j.pods)*factor)),
				length: time.Duration(float64(j.length) * (0.7 + 0.6*rng.Float64())).Truncate(time.Second)})
		}
	}
}

// rollouts: three services on each working day.
func (s *Script) rollouts(rng *rand.Rand) {
	for from := time.Duration(0); from < min(s.Length, 5*day); from += day {
		for range 3 {
			at := from + 9*time.Hour + time.Duration(rng.IntN(8*3600))*time.Second
			s.add(act{at: at, kind: actRollout, app: rng.IntN(12)})
		}
	}
}
