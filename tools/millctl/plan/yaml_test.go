package plan

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"
)

// sameAsWhole fails if the plain parser takes a document and reads it otherwise than the whole one.
func sameAsWhole(t interface{ Fatalf(string, ...any) }, raw string) (taken bool) {
	got, ok := convertYAML([]byte(raw), nil)
	if !ok {
		return false
	}
	var have, want any
	whole, err := yaml.YAMLToJSON([]byte(raw))
	if err != nil {
		t.Fatalf("the plain parser takes what is no YAML (%v):\n%s\nas %s", err, raw, got)
	}
	if err := json.Unmarshal(got, &have); err != nil {
		t.Fatalf("the plain parser gives bad JSON (%v):\n%s\nas %s", err, raw, got)
	}
	if err := json.Unmarshal(whole, &want); err != nil {
		t.Fatalf("decode: %v", err)
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Fatalf("(-whole +plain):\n%s\nof:\n%s", diff, raw)
	}
	return true
}

func TestPlainYAMLTakesWhatPeopleWrite(t *testing.T) {
	for name, raw := range map[string]string{
		"nested blocks":              "a:\n  b:\n    c: d\n  e: f\ng: h\n",
		"list at its key's column":   "a:\n- b: 1\n  c: 2\n- d\ne: f\n",
		"indented list":              "a:\n  - b: 1\n    c:\n      - x\n      - z\n  - d: {}\n",
		"list of lists":              "a:\n- - b\n  - c\n- - d\n",
		"empty values":               "a:\nb:\n  c:\nd: []\ne: {}\nf:\n-\n- g\n",
		"numbers":                    "a: 0\nb: -5\nc: 1.5\nd: 100m\ne: 2Gi\nf: 0.25\ng: 12.0\n",
		"quotes":                     "a: \"0\"\nb: 'x y'\nc: \"\"\nd: \"a: b # c\"\n",
		"words":                      "a: true\nb: false\nc: null\nd: nginx:1.2\ne: a b  c\nf: http://x/y\n",
		"times":                      "a: 2026-03-02T10:00:00Z\n",
		"flow":                       "a: {b: 1, c: [x, \"y\", {d: true}], \"e\": {}}\n- x\n",
		"flow alone":                 "a: {b: 1, c: [x, \"y\", {d: true}], \"e\": {}}\n",
		"comments and blank lines":   "# one\na: b\n\n  # two\nc: d\n",
		"no line feed at the end":    "a: b",
		"a document with an indent":  "  a: b\n  c: d\n",
		"keys with slashes and dots": "app.kubernetes.io/name: x\n",
	} {
		t.Run(name, func(t *testing.T) {
			if taken := sameAsWhole(t, raw); taken == (name == "flow") {
				t.Errorf("taken: %v", taken)
			}
		})
	}
}

func TestPlainYAMLLeavesTheRest(t *testing.T) {
	for name, raw := range map[string]string{
		"anchor": "a: &x b\n", "alias": "a: *x\n", "tag": "a: !!str 1\n", "literal": "a: |\n  b\n", "folded": "a: >\n  b\n",
		"continued scalar": "a: b\n  c\n", "trailing comment": "a: b # c\n", "escape": `a: "b\n"` + "\n", "two quotes": "a: 'it''s'\n",
		"octal": "a: 0777\n", "hex": "a: 0x1f\n", "exponent": "a: 1e3\n", "underscore": "a: 1_000\n", "infinity": "a: .inf\n",
		"old boolean": "a: yes\n", "old boolean as key": "on: a\n", "date": "a: 2026-03-02\n", "tabs": "a:\tb\n", "carriage return": "a: b\r\n",
		"same key twice": "a: b\na: c\n", "merge": "a:\n  <<: b\n", "colon in a value": "a: b: c\n", "unclosed": "a: [b\n",
		"complex key": "? a\n: b\n", "other scripts": "a: é\n", "list in a mapping": "a: b\n- c\n", "flow over lines": "a: [b,\n c]\n",
	} {
		t.Run(name, func(t *testing.T) {
			if _, ok := convertYAML([]byte(raw), nil); ok {
				t.Errorf("taken")
			}
		})
	}
}

// Random lines of tricky pieces: whatever is taken reads as the whole parser reads it.
func TestPlainYAMLReadsAsTheWholeParser(t *testing.T) {
	pieces := []string{"a", "b", "key", "on", "y", "null", "~", "-", "- ", ": ", ":", " ", "  ", "\n", "\n  ", "\n- ", "\n  - ", "\n    ", "{", "}", "[", "]",
		",", ", ", "\"", "'", "#", " #", "1", "0", "-1", "1.5", "1.", ".5", "100m", "2Gi", "0x1", "1e3", "12:30", "2026-03-02T10:00:00Z", "2026-03-02",
		"true", "No", "a/b.c", "x=y", "%", "@", "&a", "*a", "!", "|", ">", "?", "\\", "\t", "\r\n", "é", "---", "a: ", "b:\n", "c: d\n", "{a: b}", "[a, b]", "=", "+1", "$x", "(a)"}
	rapid.Check(t, func(t *rapid.T) {
		sameAsWhole(t, strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 1, 14).Draw(t, "pieces"), ""))
	})
}

func FuzzPlainYAML(f *testing.F) {
	for _, file := range []string{"testdata/basic/input.yaml", "testdata/reasons/input.yaml"} {
		raw, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(raw))
	}
	f.Add("a:\n- b: 1\n  c: {d: \"e\"}\n")
	f.Fuzz(func(t *testing.T, raw string) { sameAsWhole(t, raw) })
}
