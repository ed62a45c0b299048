package export_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"millwright/planner/ledger"
	"millwright/services/export"
	"millwright/store/audit/line"
)

// Templates that we ship make JSON of every kind, whatever is in it.
func TestShippedTemplatesMakeJSONOfAnything(t *testing.T) {
	paths, err := filepath.Glob("../../deploy/examples/export/*.tmpl")
	if err != nil || len(paths) < 2 {
		t.Fatalf("%v, %v", paths, err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		tmpl, err := export.ParseTemplate(path, string(text))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range []export.Message{
			{},
			{Line: line.Line{Kind: "X", Text: "\"}], \u0000 <script> \\ \xff " + strings.Repeat("ü", 3000)}, Cluster: `a"b`, Subject: "pod/x/\n"},
			{Line: line.Line{Kind: "CommandStarted"}, Content: map[string]any{"priceBefore": json.Number("102000"), "priceAfter": json.Number("34000")}},
			{Content: []any{1}}, {Content: map[string]any{"priceBefore": json.Number("1")}},
		} {
			out, err := export.Render(tmpl, m)
			if err != nil && m.Content != nil && m.Kind == "" { // a payload of another shape
				continue
			}
			if err != nil || !json.Valid(out) || m.Kind == "CommandStarted" && strings.Contains(path, "teams") && !strings.Contains(string(out), "from $0.1020 an hour to $0.0340") {
				t.Errorf("%s: %v\n%s", path, err, out)
			}
		}
	}
}

func TestPeopleGetMessagesOfTheTemplate(t *testing.T) {
	b := newBench(t)
	var mu sync.Mutex
	var bodies []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		mu.Lock()
		defer mu.Unlock()
		bodies = append(bodies, q.URL.Path+" "+q.Header.Get("Content-Type")+" "+string(body))
	}))
	defer server.Close()
	b.closed(3)
	b.record(ledger.KindAlarmRaised, &ledger.AlarmRaised{Reason: "LogHalfFull", Message: "of it"})
	b.record(ledger.KindAlarmRaised, &ledger.AlarmRaised{Reason: "Boring"})
	b.record(ledger.KindAlarmRaised, &ledger.AlarmRaised{Reason: "Broken"})
	b.record(ledger.KindAlarmRaised, &ledger.AlarmRaised{Reason: "Last"})
	s := settings(t, func(s *export.Settings) {
		s.WebhookURLFile = file(t, "url", server.URL+"/services/T0/s3cret\n")
		s.WebhookTemplate = file(t, "x.tmpl", `{{if eq .Content.reason "Broken"}}{{index .Subjects 3}}{{end}}{{if ne .Content.reason "Boring"}}{"text": {{json .Content.reason}}}{{end}}`)
	})
	stop := b.run(s)
	until(t, "both are there", func() bool { mu.Lock(); defer mu.Unlock(); return len(bodies) == 2 })
	stop()
	want := `/services/T0/s3cret application/json {"text": "`
	if bodies[0] != want+`LogHalfFull"}` || bodies[1] != want+`Last"}` {
		t.Errorf("%q", bodies)
	}
	if b.metric("dead_letters_total", "webhook") != 1 || !strings.Contains(b.logged.String(), "make message of record 7") {
		t.Errorf("nobody is told of the record that the template cannot show: %s", b.logged)
	}
	server.Close()
	b.record(ledger.KindAlarmRaised, &ledger.AlarmRaised{Reason: "After"})
	b.run(s)
	until(t, "it is tried", func() bool { return b.metric("attempts_total", "webhook") > 0 })
	until(t, "it is logged", func() bool { return strings.Contains(b.logged.String(), "sink did not take it") })
	if strings.Contains(b.logged.String(), "s3cret") {
		t.Errorf("the URL is logged: %s", b.logged)
	}
}
