package storetest

import (
	"strings"
	"testing"

	"millwright/store"
)

var switchTests = map[string]func(*testing.T, Harness){
	"a switch is set with its record": func(t *testing.T, h Harness) {
		if value, head := mustSwitch(t, h.Log, "stop"); value != "" || head.Seq != 1 {
			t.Fatalf("switch %q at record %d before it was set", value, head.Seq)
		}
		d := draft(1)
		d.Switches = map[string]string{"stop": "all", "other": "x"}
		rec := mustAppend(t, h.Log, d)
		if rec.Switches != nil {
			t.Errorf("the record keeps the switches %v", rec.Switches)
		}
		for _, log := range []store.Log{h.Log, h.Open()} {
			if value, head := mustSwitch(t, log, "stop"); value != "all" || head.Seq != rec.Seq || head.Hash != rec.Hash {
				t.Errorf("switch %q at record %d, want \"all\" at %d", value, head.Seq, rec.Seq)
			}
		}
		mustAppend(t, h.Log, draft(2))
		if value, head := mustSwitch(t, h.Log, "stop"); value != "all" || head.Seq != rec.Seq+1 {
			t.Errorf("after another record: switch %q at %d", value, head.Seq)
		}
	},
	"a refused draft sets no switch": func(t *testing.T, h Harness) {
		d := draft(1)
		d.Expects = map[string]uint64{"control": 7}
		d.Switches = map[string]string{"stop": "all"}
		_, err := h.Log.Append(bounded(t), d)
		wantError(t, err, store.ErrConflict)
		if value, _ := mustSwitch(t, h.Log, "stop"); value != "" {
			t.Errorf("switch %q", value)
		}
	},
	"of two operators who saw the same, one is refused": func(t *testing.T, h Harness) {
		stored, refused := race(t, 8, func(i int) error {
			d := draft(i)
			d.Expects, d.Advances = map[string]uint64{"control": 0}, []string{"control"}
			d.Switches = map[string]string{"stop": strings.Repeat("x", i+1)}
			_, err := h.Open().Append(bounded(t), d)
			return err
		}, store.ErrConflict)
		if stored != 1 || refused != 7 {
			t.Fatalf("%d stored, %d refused", stored, refused)
		}
		seq, err := h.Log.Aggregate(bounded(t), "control")
		if value, _ := mustSwitch(t, h.Log, "stop"); err != nil || value == "" || seq == 0 {
			t.Errorf("switch %q, aggregate %d, %v", value, seq, err)
		}
	},
	"a switch has limits": func(t *testing.T, h Harness) {
		for _, switches := range []map[string]string{{"stop": strings.Repeat("x", store.MaxSwitchBytes+1)}, {"": "x"}} {
			d := draft(1)
			d.Switches = switches
			if _, err := h.Log.Append(bounded(t), d); err == nil {
				t.Errorf("a switch of %d bytes was stored", len(switches["stop"]))
			}
		}
	},
}

func mustSwitch(t *testing.T, log store.Log, name string) (string, store.Head) {
	t.Helper()
	value, head, err := log.Switch(bounded(t), name)
	if err != nil {
		t.Fatal(err)
	}
	return value, head
}
