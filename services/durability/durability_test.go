package durability

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// etcdPage is a metrics page of etcd.
func etcdPage(quota int64, applied, flushed int) string {
	return fmt.Sprintf("# HELP x y\netcd_server_quota_backend_bytes %g\netcd_server_proposals_applied_total %d\netcd_disk_wal_fsync_duration_seconds_count %d\n",
		float64(quota), applied, flushed)
}

// natsPage is a monitoring page of NATS, with a configuration of JetStream.
func natsPage(config string, urls ...string) string {
	return fmt.Sprintf(`{"version":"2.15.2","cluster":{"urls":["%s"]},"jetstream":{%s}}`, strings.Join(urls, `","`), config)
}

const syncs = `"config":{"sync_interval":120000000000}`

var (
	sound     = etcdPage(8<<30, 100, 90)
	soundNATS = natsPage(syncs, "a", "b", "c")
)

// servers serves a page for etcd and one for NATS.
func servers(t *testing.T, etcd, nats *string) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	answer := func(page *string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if *page == "" {
				w.WriteHeader(http.StatusNotFound)
			}
			_, _ = w.Write([]byte(*page))
		}
	}
	mux.HandleFunc("/metrics", answer(etcd))
	mux.HandleFunc("/varz", answer(nats))
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func TestEachUnsafeSettingIsFound(t *testing.T) {
	for about, c := range map[string]struct {
		members           int
		membersErr        error
		etcd, nats        string
		replicas          int
		finding           Finding
		verdict           Verdict
		message, remedies string
	}{
		"all is well":          {members: 3, etcd: sound, nats: soundNATS, replicas: 3},
		"one member":           {members: 1, etcd: sound, nats: soundNATS, replicas: 3, finding: EtcdOneMember, verdict: Unsafe, message: "one member", remedies: "three members"},
		"two members":          {members: 2, etcd: sound, nats: soundNATS, replicas: 3, finding: EtcdEvenMembers, verdict: Unsafe, message: "2 members", remedies: "odd"},
		"members unknown":      {membersErr: errors.New("no leader"), etcd: sound, nats: soundNATS, replicas: 3, finding: EtcdOneMember, verdict: Unknown, message: "no leader"},
		"etcd's own quota":     {members: 3, etcd: etcdPage(2<<30, 100, 90), nats: soundNATS, replicas: 3, finding: EtcdSmallQuota, verdict: Unsafe, message: "2048 MiB", remedies: "8589934592"},
		"never flushes":        {members: 3, etcd: etcdPage(8<<30, 100, 0), nats: soundNATS, replicas: 3, finding: EtcdNotFlushed, verdict: Broken, message: "flushes nothing", remedies: "--unsafe-no-fsync"},
		"has done little yet":  {members: 3, etcd: etcdPage(8<<30, 3, 0), nats: soundNATS, replicas: 3, finding: EtcdNotFlushed, verdict: Unknown, message: "too little"},
		"no page of etcd":      {members: 3, nats: soundNATS, replicas: 3, finding: EtcdNotFlushed, verdict: Unknown, message: "404"},
		"one server of NATS":   {members: 3, etcd: sound, nats: natsPage(syncs), replicas: 3, finding: NATSOneServer, verdict: Unsafe, message: "one server", remedies: "three servers"},
		"no JetStream":         {members: 3, etcd: sound, nats: natsPage("", "a", "b", "c"), replicas: 3, finding: NATSNoJetStream, verdict: Broken, message: "no JetStream"},
		"NATS flushes hourly":  {members: 3, etcd: sound, nats: natsPage(`"config":{"sync_interval":3600000000000}`, "a", "b"), replicas: 3, finding: NATSFlushedLate, verdict: Unsafe, message: "1h0m0s"},
		"NATS flushes always":  {members: 3, etcd: sound, nats: natsPage(`"config":{"sync_interval":3600000000000,"sync_always":true}`, "a", "b"), replicas: 3},
		"no page of NATS":      {members: 3, etcd: sound, replicas: 3, finding: NATSNoJetStream, verdict: Unknown, message: "404"},
		"one replica":          {members: 3, etcd: sound, nats: soundNATS, replicas: 1, finding: StreamFewReplicas, verdict: Unsafe, message: "one replica", remedies: "--nats-replicas"},
		"replicas are unknown": {members: 3, etcd: sound, nats: soundNATS, finding: StreamFewReplicas, verdict: Unknown, message: "no responders"},
	} {
		t.Run(about, func(t *testing.T) {
			s := servers(t, &c.etcd, &c.nats)
			results := Check(t.Context(), Config{
				EtcdMembers: func(context.Context) (int, error) { return c.members, c.membersErr }, EtcdMetrics: EtcdPages([]string{s.URL, "unix:///x"}),
				NATSMonitoring: []string{s.URL}, StreamReplicas: func(context.Context) (int, error) {
					if c.replicas == 0 {
						return 0, errors.New("no responders")
					}
					return c.replicas, nil
				}})
			found := Result{}
			for _, r := range results {
				if !slices.Contains(Findings, r.Finding) {
					t.Errorf("%s is not among the findings", r.Finding)
				}
				if r.Verdict != Safe {
					if found.Finding != "" && found.Object == r.Object {
						t.Errorf("more than one finding: %+v and %+v", found, r)
					}
					found = r
				}
			}
			if found.Finding != c.finding || found.Verdict != c.verdict || !strings.Contains(found.Message, c.message) || !strings.Contains(found.Remedy, c.remedies) {
				t.Errorf("found %+v", found)
			}
		})
	}
}

func TestWhereThePagesAre(t *testing.T) {
	for _, c := range []struct{ got, want []string }{
		{EtcdPages([]string{"https://etcd-0:2379", "http://127.0.0.1:1234", "unix:///x", "etcd-0:2379"}), []string{"https://etcd-0:2379/metrics", "http://127.0.0.1:1234/metrics"}},
		{NATSPages("tls://reader:pw@nats-0:4222, tls://reader:pw@nats-1:4222", false), []string{"https://nats-0:8222", "https://nats-1:8222"}},
		{NATSPages("nats://nats:4222", false), []string{"http://nats:8222"}},
		{NATSPages("nats://nats:4222", true), []string{"https://nats:8222"}},
		{NATSPages("", true), nil},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("got %v, want %v", c.got, c.want)
		}
	}
}

// A NATS that is spoken to by TLS may have its monitoring page without.
func TestAMonitoringPageWithoutTLS(t *testing.T) {
	s := servers(t, &sound, &soundNATS)
	results := Check(t.Context(), Config{NATSMonitoring: []string{strings.Replace(s.URL, "http:", "https:", 1)}})
	if len(results) != 3 || results[0].Verdict != Safe {
		t.Errorf("%+v", results)
	}
}

// The gauge says of each finding what was found last, and nothing of what is not known; the log tells of
// it when it begins.
func TestTheGaugeFollowsWhatIsFound(t *testing.T) {
	etcd, nats, members := sound, soundNATS, 3
	s := servers(t, &etcd, &nats)
	registry, text := prometheus.NewRegistry(), &bytes.Buffer{}
	w := NewWatch(Config{EtcdMembers: func(context.Context) (int, error) { return members, nil }, EtcdMetrics: EtcdPages([]string{s.URL}), NATSMonitoring: []string{s.URL}},
		zerolog.New(text).Level(zerolog.WarnLevel), registry)
	expect := func(when string, told int, want map[Finding]float64) {
		t.Helper()
		w.Look(t.Context())
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[Finding]float64{}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				got[Finding(m.GetLabel()[0].GetValue())] = m.GetGauge().GetValue()
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
		if n := strings.Count(text.String(), "unsafe setting"); n != told {
			t.Errorf("%s: told %d times, want %d\n%s", when, n, told, text)
		}
	}
	safe := map[Finding]float64{EtcdOneMember: 0, EtcdEvenMembers: 0, EtcdSmallQuota: 0, EtcdNotFlushed: 0, NATSOneServer: 0, NATSNoJetStream: 0, NATSFlushedLate: 0}
	expect("at first", 0, safe)
	etcd, members = etcdPage(8<<30, 100, 0), 2
	unsafe := map[Finding]float64{EtcdOneMember: 0, EtcdEvenMembers: 1, EtcdSmallQuota: 0, EtcdNotFlushed: 1, NATSOneServer: 0, NATSNoJetStream: 0, NATSFlushedLate: 0}
	expect("unsafe", 2, unsafe)
	expect("still", 2, unsafe)
	etcd, nats, members = "", "", 3
	expect("the pages are gone", 2, map[Finding]float64{EtcdOneMember: 0, EtcdEvenMembers: 0})
	etcd, nats = etcdPage(8<<30, 100, 0), soundNATS
	unsafe[EtcdEvenMembers] = 0
	expect("unsafe again", 3, unsafe)
	etcd = sound
	expect("put right", 3, safe)
}
