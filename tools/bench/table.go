package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"text/tabwriter"
)

// figure is one row.
type figure struct {
	name, aim, measured string
	verdict             verdict
}

type verdict string

const (
	noAim  verdict = ""
	met    verdict = "met"
	missed verdict = "missed"
	failed verdict = "failed"
)

func verdictOf(ok bool) verdict {
	if ok {
		return met
	}
	return missed
}

// table collects rows and the state of the machine.
type table struct {
	began  string
	rows   []figure
	failed int
}

// addPart takes what a part found, and says so if it failed.
func (t *table) addPart(p part, figures []figure, err error) {
	t.rows = append(t.rows, figures...)
	if err != nil {
		t.failed++
		t.rows = append(t.rows, figure{name: p.about, measured: "not measured: " + firstLine(err.Error()), verdict: failed})
		fmt.Fprintf(os.Stderr, "%s: %v\n", p.name, err)
	}
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

func (t *table) print(out io.Writer) {
	fmt.Fprintf(out, "\nbegan: %s\nended: %s\n\n", t.began, machine())
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "FIGURE\tAIM\tMEASURED\t")
	for _, r := range t.rows {
		aim := r.aim
		if aim == "" {
			aim = "–"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.name, aim, r.measured, r.verdict)
	}
	_ = w.Flush()
}

// machine describes the hardware, and the load from other work, under which the figures were measured.
func machine() string {
	load := "unknown"
	if b, err := os.ReadFile("/proc/loadavg"); err == nil {
		load = strings.Join(strings.Fields(string(b))[:3], " ")
	}
	return fmt.Sprintf("%d CPUs (%s), %s/%s, %s, load average %s", runtime.NumCPU(), processor(), runtime.GOOS, runtime.GOARCH, runtime.Version(), load)
}

func processor() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(b)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}
