package sim

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestJournalToleratesATornEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), journalFile)
	text := `{"kind":"capacity","key":"capacity","value":[{"limit":1}]}
{"kind":"capacity","key":"capacity","value":[{"limit":2}]}
{"kind":"profile","key":"p","value":{"name":"p"}}
{"kind":"profile","key":"p","value":null}
{"kind":"ledger","key":"1","val`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := readJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || !strings.Contains(string(got[0].Value), "2") {
		t.Errorf("living entities %s", got)
	}
}

func TestJournalRefusesWhatItDoesNotKnow(t *testing.T) {
	cases := map[string]string{
		"a line that is not JSON":        "what\n",
		"an entity of a later simulator": `{"kind":"rocket","key":"1","value":1}` + "\n",
		"an entity of another shape":     `{"kind":"capacity","key":"capacity","value":"many"}` + "\n",
	}
	for sentence, text := range cases {
		t.Run(sentence, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, journalFile), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := New(Config{}).Persist(dir); err == nil {
				t.Error("loaded")
			}
		})
	}
}

func TestGlob(t *testing.T) {
	cases := []struct {
		pattern, text string
		want          bool
	}{
		{"*", "", true}, {"a*c", "abc", true}, {"a*c", "ab", false}, {"a?c", "abc", true}, {"a?c", "ac", false},
		{`a\*`, "a*", true}, {`a\*`, "ab", false}, {"", "", true}, {"", "a", false}, {"**b", "aab", true}, {"abc", "abcd", false},
	}
	for _, c := range cases {
		if got := glob(c.pattern, c.text); got != c.want {
			t.Errorf("glob(%q, %q) = %v", c.pattern, c.text, got)
		}
	}
}
