package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

const top = "../.."

// Every section that a file of the repository cites exists as a heading.
func TestCitedSectionsHaveHeadings(t *testing.T) {
	faults, found, err := check(top)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range faults {
		t.Error(f)
	}
	for page := range Pages {
		if found[page] == 0 {
			t.Errorf("nothing cites %s: are citations still found?", page)
		}
	}
}

func sourcesOf(t *testing.T) []string {
	t.Helper()
	files, err := sources(top)
	if err != nil || len(files) < 500 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	return files
}

func TestCitations(t *testing.T) {
	for text, want := range map[string]string{
		"// as planned (DESIGN §4).":                              "DESIGN 4",
		"// (reference: scheduling §7.5, §11)":                    "scheduling 7.5, scheduling 11",
		"// reference/disruption.md §4, §6 and §9.":               "disruption 4, disruption 6, disruption 9",
		"// scheduling §14, disruption §5":                        "scheduling 14, disruption 5",
		"// wrapped (reference: disruption\n\t// §6, Processing)": "disruption 6",
		"// from §3 on": " 3",
		"// DESIGN §5 says so; for more see §7":                         "DESIGN 5,  7",
		"[§10](lifecycle.md#10-node-repair)":                            "lifecycle 10",
		"[ec2 §3](ec2.md#3-x) and [§3.4](ec2.md#34-y)":                  "ec2 3, ec2 3.4",
		"// lifecycle §2-§9, api §3":                                    "lifecycle 2, lifecycle 9, api 3",
		"// the rules of `lifecycle §8.3`":                              "lifecycle 8.3",
		"see [lifecycle §8.4](docs/reference/lifecycle.md#84-deadline)": "lifecycle 8.4",
	} {
		file := "docs/reference/x.md"
		if strings.Contains(text, "docs/") {
			file = "README.md"
		}
		var got []string
		for _, c := range In(file, text) {
			got = append(got, fmt.Sprintf("%s %s", c.Page, c.Section))
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	if got := In("docs/reference/ec2.md", "as §4.5 says"); len(got) != 1 || got[0].Page != "ec2" {
		t.Errorf("a page's own section: %v", got)
	}
	if got := In("a.go", "package a\n\n// one\n// disruption\n// §2\n"); len(got) != 1 || got[0].Line != 5 {
		t.Errorf("line of a wrapped citation: %v", got)
	}
}

var (
	link   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	title  = regexp.MustCompile(`(?m)^#+ (.*)$`)
	blocks = regexp.MustCompile("(?s)```.*?```")
	code   = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
)

// Links in documents lead to files that exist, and to headings in them.
func TestLinksLeadSomewhere(t *testing.T) {
	checked := 0
	for _, file := range sourcesOf(t) {
		if filepath.Ext(file) != ".md" {
			continue
		}
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(read(t, file), ""), -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, ":") {
				continue
			}
			to := file
			if target != "" {
				to = filepath.Join(filepath.Dir(file), target)
			}
			checked++
			if _, err := os.Stat(filepath.Join(top, to)); err != nil {
				t.Errorf("%s: link %s leads nowhere", file, m[1])
				continue
			}
			if anchor != "" && !slices.Contains(anchors(read(t, to)), anchor) {
				t.Errorf("%s: link %s: %s has no such heading", file, m[1], to)
			}
		}
	}
	if checked < 100 {
		t.Errorf("only %d links: are they still found?", checked)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// anchors are the anchors that viewers of Markdown give to the headings of a document.
func anchors(text string) []string {
	var out []string
	for _, m := range title.FindAllStringSubmatch(blocks.ReplaceAllString(text, ""), -1) {
		var b strings.Builder
		for _, r := range strings.ToLower(m[1]) {
			switch {
			case r == ' ' || r == '-':
				b.WriteByte('-')
			case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_':
				b.WriteRune(r)
			}
		}
		out = append(out, b.String())
	}
	return out
}

var (
	testName = regexp.MustCompile("`((?:Test|Benchmark|Fuzz)[A-Z][A-Za-z0-9]*)`")
	testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz)[A-Z][A-Za-z0-9]*)\(`)
)

// The tests that documents name exist, so that whoever breaks a documented promise finds the test that fails.
func TestTestsThatDocumentsNameExist(t *testing.T) {
	exist := map[string]bool{}
	files := sourcesOf(t)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			for _, m := range testFunc.FindAllStringSubmatch(read(t, file), -1) {
				exist[m[1]] = true
			}
		}
	}
	named := 0
	for _, file := range files {
		if filepath.Ext(file) != ".md" {
			continue
		}
		for _, m := range testName.FindAllStringSubmatch(read(t, file), -1) {
			if named++; !exist[m[1]] {
				t.Errorf("%s: there is no %s", file, m[1])
			}
		}
	}
	if named < 100 {
		t.Errorf("only %d names of tests: are they still found?", named)
	}
}
