package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseBenchmarks(t *testing.T) {
	cases := map[string]struct {
		out  string
		want results
	}{
		"values with units of their own": {
			"BenchmarkAppend/appenders=1/writers=1-2   \t 2000\t 998000 ns/op\t 1.5 p99-ms\t 1001 records/s\nPASS\n",
			results{{"Append/appenders=1/writers=1", map[string]float64{"ns/op": 998000, "p99-ms": 1.5, "records/s": 1001}}},
		},
		"output of the code under test between name and values": {
			"BenchmarkBus-16  \t{\"level\":\"warn\"}\n 100\t 12 ns/op\n",
			results{{"Bus", map[string]float64{"ns/op": 12}}},
		},
		"lines that are no results": {"goos: linux\ncpu: Some CPU @ 2.50GHz\nok  \tmillwright/x\t1.2s\n", nil},
		"a benchmark that failed":   {"BenchmarkX-2\n--- FAIL: BenchmarkX-2\n", nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, parseBenchmarks(c.out), cmp.AllowUnexported(result{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestQuantile(t *testing.T) {
	var all []time.Duration
	for i := 100; i > 0; i-- {
		all = append(all, time.Duration(i))
	}
	for percent, want := range map[int]time.Duration{50: 50, 99: 99, 100: 100} {
		if got := quantile(all, percent); got != want {
			t.Errorf("quantile %d of 1…100 is %d, want %d", percent, got, want)
		}
	}
	if quantile(nil, 50) != 0 || quantile(all[:1], 99) != 100 {
		t.Error("none and one are not themselves")
	}
}

func TestNumbersAreReadable(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 999: "999", 1000: "1,000", 1234567.6: "1,234,568"} {
		if got := count(v); got != want {
			t.Errorf("count(%v) is %q, want %q", v, got, want)
		}
	}
	for v, want := range map[float64]string{0.25: "0.250 ms", 12.34: "12.3 ms", 295.4: "295 ms", 2100: "2.10 s"} {
		if got := millis(v); got != want {
			t.Errorf("millis(%v) is %q, want %q", v, got, want)
		}
	}
}
