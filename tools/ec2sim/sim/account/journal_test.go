package account

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestJournalToleratesATornEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), JournalFile)
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
