package sim

import (
	"os"
	"path/filepath"
	"testing"

	"millwright/tools/ec2sim/sim/account"
)

func TestJournalRefusesWhatItDoesNotKnow(t *testing.T) {
	cases := map[string]string{
		"a line that is not JSON":        "what\n",
		"an entity of a later simulator": `{"kind":"rocket","key":"1","value":1}` + "\n",
		"an entity of another shape":     `{"kind":"capacity","key":"capacity","value":"many"}` + "\n",
	}
	for sentence, text := range cases {
		t.Run(sentence, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, account.JournalFile), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := New(account.Config{}).Persist(dir); err == nil {
				t.Error("loaded")
			}
		})
	}
}
