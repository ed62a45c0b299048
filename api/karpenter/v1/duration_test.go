package v1

import (
	"encoding/json"
	"math"
	"testing"
	"time"
)

func TestDurationsAreWrittenAsRead(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"720h": 720 * time.Hour, "1440m": 24 * time.Hour, "90s": 90 * time.Second, "0s": 0, "1m1m": 2 * time.Minute,
		"99999999999999h": math.MaxInt64, "3000000h1m": math.MaxInt64,
	} {
		t.Run(text, func(t *testing.T) {
			var d NillableDuration
			if err := json.Unmarshal([]byte(`"`+text+`"`), &d); err != nil {
				t.Fatal(err)
			}
			if d.Duration == nil || *d.Duration != want {
				t.Errorf("read %v, want %v", d.Duration, want)
			}
			if out, err := json.Marshal(d); err != nil || string(out) != `"`+text+`"` {
				t.Errorf("written as %s (%v)", out, err)
			}
		})
	}
}

func TestNeverIsNotUnset(t *testing.T) {
	var never, unset NillableDuration
	if err := json.Unmarshal([]byte(`"Never"`), &never); err != nil {
		t.Fatal(err)
	}
	if !never.IsNever() || never.Duration != nil || never.IsZero() {
		t.Errorf("Never is read as %+v", never)
	}
	if unset.IsNever() || !unset.IsZero() {
		t.Errorf("unset counts as Never")
	}
}

func TestWhatIsNoDurationIsAnError(t *testing.T) {
	for _, text := range []string{`"soon"`, `""`, `5`, `"never"`} {
		if err := json.Unmarshal([]byte(text), new(NillableDuration)); err == nil {
			t.Errorf("%s is read as a duration", text)
		}
	}
}
