package script

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/plannertest"
)

var rewrite = flag.Bool("rewrite", false, "write the output of scripts into their files")

// Verb runs one command. It writes what it has to say by Case.Printf.
type Verb func(c *Case, a *Args)

// Case is one case of a script with the cluster it works on.
type Case struct {
	*plannertest.Cluster
	T *testing.T
	// Options of snapshots.
	Options planner.Options
	// Verbs are the commands beside those that all planners share.
	Verbs map[string]Verb
	// State is what the verbs of a package keep from one to the next; nil at first.
	State any
	// Subject is the name of the NodeClaim that commands call "it"; "" if there is none.
	Subject string

	// objects seen last, by kind and name: "node n1".
	objects map[string]any
	out     strings.Builder
}

// Snapshot joins what the case has built.
func (c *Case) Snapshot() *planner.Snapshot {
	s := c.Cluster.Snapshot()
	s.Options = c.Options
	return s
}

// Printf writes output.
func (c *Case) Printf(format string, args ...any) { fmt.Fprintf(&c.out, format, args...) }

// Check ends the case with an error.
func (c *Case) Check(err error) {
	c.T.Helper()
	if err != nil {
		c.T.Fatal(err)
	}
}

// logID of the logs of cases, by which NodeClaims are named.
const logID = "0123456789abcdef0123456789abcdef"

func newCase(t *testing.T, verbs map[string]Verb) *Case {
	c := &Case{Cluster: plannertest.New(), T: t, Options: planner.DefaultOptions(), Verbs: verbs, objects: map[string]any{}}
	c.Ledger, c.Entries = ledger.New(logID), nil
	c.namespace("default")
	return c
}

// Run runs the scripts that a pattern of file names finds, each case as a test of its own.
func Run(t *testing.T, pattern string, verbs map[string]Verb) {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts in %s: %v", pattern, err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txt"), func(t *testing.T) { runFile(t, f, verbs) })
	}
}

// section of a script: the lines shared by all cases, or one case.
type section struct {
	// title of a case; "" of what is shared.
	title string
	lines []string
}

// sectionsOf returns what the cases of a file share, then its cases.
func sectionsOf(text string) []section {
	list := []section{{}}
	for _, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if title, is := strings.CutPrefix(line, "== "); is {
			list = append(list, section{title: title})
		}
		last := &list[len(list)-1]
		last.lines = append(last.lines, line)
	}
	return list
}

func runFile(t *testing.T, file string, verbs map[string]Verb) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sections := sectionsOf(string(text))
	if len(sections) == 1 {
		t.Fatal("no line begins with ==")
	}
	shared := sections[0].lines
	out := append([]string(nil), shared...)
	titles := map[string]bool{}
	for _, s := range sections[1:] {
		if titles[s.title] || !strings.HasSuffix(s.title, ".") {
			t.Errorf("%q: the title of a case is a sentence of its own", s.title)
		}
		titles[s.title] = true
		got := s.lines
		t.Run(s.title, func(t *testing.T) {
			got = runCase(t, verbs, shared, s.lines)
			if want := strings.Join(s.lines, "\n"); !*rewrite && strings.Join(got, "\n") != want {
				t.Errorf("output differs; run with -rewrite and look at the diff\n%s", strings.Join(got, "\n"))
			}
		})
		out = append(out, got...)
	}
	if *rewrite && !t.Failed() {
		if err := os.WriteFile(file, []byte(strings.Join(out, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// runCase returns the lines of a case with the output it gives.
func runCase(t *testing.T, verbs map[string]Verb, shared, lines []string) []string {
	c := newCase(t, verbs)
	c.runLines(shared)
	if c.out.Len() > 0 {
		t.Fatal("what all cases share must not write")
	}
	out := c.runLines(lines[1:])
	if c.out.Len() > 0 {
		t.Fatalf("no line ---- takes the output %q", c.out.String())
	}
	return append(lines[:1:1], out...)
}

func (c *Case) runLines(lines []string) []string {
	c.T.Helper()
	var out []string
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		out = append(out, line)
		switch {
		case line == "----":
			if c.out.Len() > 0 {
				out = append(out, strings.Split(strings.TrimSuffix(c.out.String(), "\n"), "\n")...)
			}
			c.out.Reset()
			for i+1 < len(lines) && lines[i+1] != "" {
				i++
			}
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, " "):
			c.T.Fatalf("%q is indented below no command", line)
		default:
			from := i + 1
			for i+1 < len(lines) && strings.HasPrefix(lines[i+1], "  ") {
				i++
			}
			out = append(out, lines[from:i+1]...)
			c.run(line, lines[from:i+1])
		}
	}
	return out
}

// run runs a command with its block.
func (c *Case) run(line string, block []string) {
	c.T.Helper()
	line, _, _ = strings.Cut(line, " #")
	words := strings.Fields(line)
	a := &Args{c: c, Line: line, words: words[1:]}
	for _, l := range block {
		a.block = append(a.block, strings.TrimPrefix(l, "  "))
	}
	verb := c.Verbs[words[0]]
	if verb == nil {
		verb = commands[words[0]]
	}
	if verb == nil {
		c.T.Fatalf("unknown command %q", line)
	}
	verb(c, a)
	if len(a.words) > 0 || len(a.block) > 0 {
		c.T.Fatalf("%q: nothing reads %q and the block %q", line, a.words, a.block)
	}
}

// Args are the words of a command and its block; whoever reads them takes them away.
type Args struct {
	Line  string
	c     *Case
	words []string
	block []string
}

// More reports whether words are left.
func (a *Args) More() bool { return len(a.words) > 0 }

// Next takes a word.
func (a *Args) Next() string {
	a.c.T.Helper()
	if len(a.words) == 0 {
		a.c.T.Fatalf("%q lacks a word", a.Line)
	}
	w := a.words[0]
	a.words = a.words[1:]
	return w
}

// Option takes a word KEY=VALUE; one without = is a key alone.
func (a *Args) Option() (key, value string) {
	a.c.T.Helper()
	key, value, _ = strings.Cut(a.Next(), "=")
	return key, value
}

// Block takes the block.
func (a *Args) Block() []string {
	b := a.block
	a.block = nil
	return b
}
