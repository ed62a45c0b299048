package timezone_test

import (
	"testing"
	"time"

	"millwright/planner/timezone"
)

func TestZonesComeFromTheBinary(t *testing.T) {
	t.Setenv("ZONEINFO", "/nowhere")
	berlin, err := timezone.Load("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[time.Time]string{
		time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC): "13:00 CET",
		time.Date(2026, 7, 15, 12, 0, 0, 0, time.UTC): "14:00 CEST",
	} {
		if got := at.In(berlin).Format("15:04 MST"); got != want {
			t.Errorf("%s is %s in Berlin, want %s", at, got, want)
		}
	}
	for _, name := range []string{"Local", "Europe", "Mars/Olympus", "../etc/passwd", "europe/berlin "} {
		if l, err := timezone.Load(name); err == nil {
			t.Errorf("%q is %v, want an error", name, l)
		}
	}
	if l, err := timezone.Load(""); err != nil || l != time.UTC {
		t.Errorf("no name is %v, %v, want UTC", l, err)
	}
}
