package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"millwright/store"
	"millwright/store/audit/overview"
)

func TestWhenTheDatabaseWillBeFull(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		used         int64
		live, recent uint64
		took         time.Duration
		want         time.Duration
	}{
		"half full after a day of a thousand records": {used: 500, live: 1000, recent: 1000, took: 24 * time.Hour, want: 24 * time.Hour},
		"records come faster than they did":           {used: 500, live: 1000, recent: 100, took: time.Hour, want: 10 * time.Hour},
		"full":                                        {used: 1000, live: 1000, recent: 100, took: time.Hour},
		"an empty log":                                {used: 10},
		"never":                                       {used: 1, live: 1000000, recent: 1, took: 1000 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			got := fullAt(store.Usage{QuotaBytes: 1000, UsedBytes: c.used}, c.live, c.recent, c.took, now)
			if c.want > 0 && got != now.Add(c.want) || c.want == 0 && got.After(now) {
				t.Errorf("full at %s, want in %s", got, c.want)
			}
		})
	}
}

func TestStatusTellsOfTheDatabase(t *testing.T) {
	dir, _ := archived(t)
	out, err := millctl(dir, "status")
	if err != nil || !strings.Contains(out, "of 8192 MiB used, records up to 20 are archived") {
		t.Errorf("%s%v", out, err)
	}
	if out, err = millctl(dir, "status", "-o=json"); err != nil {
		t.Fatal(err)
	}
	var st status
	if err := json.Unmarshal([]byte(out), &st); err != nil || st.Database == nil || st.Database.Archived != 20 || !st.Archive {
		t.Errorf("%s%v", out, err)
	}
}

func TestStatusSaysThatTheQuotaIsAssumed(t *testing.T) {
	var out strings.Builder
	(&status{&overview.Status{Archive: true, Database: &overview.DatabaseStatus{UsedBytes: 5 << 29, QuotaBytes: 2 << 30, QuotaAssumed: true}}}).printDatabase(&out)
	if want := "database of the log: 2560 of 2048 MiB used (etcd's default: it reports no quota of its own)\n"; out.String() != want {
		t.Errorf("got %s, want %s", out.String(), want)
	}
	if at := fullAt(store.Usage{QuotaBytes: 1000, Assumed: true, UsedBytes: 500}, 1000, 1000, time.Hour, time.Now()); !at.IsZero() {
		t.Errorf("full at %s", at)
	}
}

func TestTheLogIsRelievedByCommand(t *testing.T) {
	dir, _ := archived(t)
	out, err := millctl(dir, "log", "relieve")
	if err != nil || !strings.Contains(out, "of 8192 MiB; 0 records archived") {
		t.Errorf("%s%v", out, err)
	}
}

func TestStatusSaysWhyNobodyLeads(t *testing.T) {
	for want, d := range map[string]*overview.DatabaseStatus{
		"lifecycle: nobody leads; nobody can be elected while the database of the log is full\n": {NoSpace: true},
		"lifecycle: nobody leads; /readyz of its processes says why":                             nil,
	} {
		var out strings.Builder
		(&status{&overview.Status{Services: []overview.ServiceStatus{{Service: "lifecycle"}}, Database: d}}).printServices(&out)
		if !strings.Contains(out.String(), want) {
			t.Errorf("got %s, want …%s…", out.String(), want)
		}
	}
}
