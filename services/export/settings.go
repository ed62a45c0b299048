package export

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"millwright/planner/ledger"
)

// Name of the service.
const Name = "export"

// Where a sink begins that has no cursor yet.
const (
	FromNow       = "now"
	FromBeginning = "beginning"
)

// Modes of CloudEvents over HTTP.
const (
	ModeStructured = "structured"
	ModeBinary     = "binary"
	ModeBatch      = "batch"
)

const (
	timeoutDefault = 10 * time.Second
	timeoutMax     = 5 * time.Minute
)

// Settings of the export.
type Settings struct {
	// URL that takes CloudEvents, and how they are sent; empty: none are.
	URL, Mode string
	// WebhookURLFile holds the URL, which often is a secret, that takes messages of the template; empty: none
	// are sent.
	WebhookURLFile, WebhookTemplate string
	// Traces are sent by OTLP, as the OTEL_ variables say.
	Traces bool
	// Kinds of records that become CloudEvents, WebhookKinds those that become messages; empty: all but the
	// log's own affairs, and those that people want to know of.
	Kinds, WebhookKinds []string
	// HeadersFile and WebhookHeadersFile hold headers, a line each, read again for each request.
	HeadersFile, WebhookHeadersFile string
	// CAFile of roots to trust besides the system's.
	CAFile string
	// From is FromNow or FromBeginning.
	From    string
	Timeout time.Duration
	// AllowPlaintext permits HTTP without TLS to other hosts.
	AllowPlaintext bool
}

// webhookKinds are what people want to know of at once.
var webhookKinds = []string{
	ledger.KindCommandProposed.String(), ledger.KindCommandStarted.String(), ledger.KindCommandMovesStarted.String(), ledger.KindCommandRolledBack.String(),
	ledger.KindCommandAbandoned.String(), ledger.KindClaimDoomed.String(), ledger.KindAlarmRaised.String(), ledger.KindControlChanged.String(),
}

// housekeeping are kinds that say nothing of the cluster.
var housekeeping = []string{
	ledger.KindLedgerCheckpoint.String(), ledger.KindSegmentArchived.String(), ledger.KindAggregatesRetired.String(),
}

// Bind defines the flags.
func (s *Settings) Bind(f *pflag.FlagSet) {
	f.StringVar(&s.URL, "export-cloudevents-url", "", "URL to which what is recorded is sent as CloudEvents; empty: none")
	f.StringVar(&s.Mode, "export-cloudevents-mode", ModeStructured, "how CloudEvents are sent: structured, binary or batch")
	f.StringSliceVar(&s.Kinds, "export-kinds", nil, "kinds of records that are sent as CloudEvents, such as CommandStarted; empty: all but the log's own affairs")
	f.StringVar(&s.HeadersFile, "export-headers-file", "", "file of headers for these requests, a line each, as in Authorization: Bearer …")
	f.StringVar(&s.WebhookURLFile, "export-webhook-url-file", "", "file that holds the URL to which messages made by --export-webhook-template are sent; empty: none")
	f.StringVar(&s.WebhookTemplate, "export-webhook-template", "", "file with a Go template of these messages (docs/export.md)")
	f.StringSliceVar(&s.WebhookKinds, "export-webhook-kinds", nil, "kinds of records that become messages; empty: commands, forceful ends of nodes, alarms and stops")
	f.StringVar(&s.WebhookHeadersFile, "export-webhook-headers-file", "", "file of headers for these requests")
	f.BoolVar(&s.Traces, "export-traces", false, "send a trace of each node that is bought or goes by OTLP, as the OTEL_ variables say")
	f.StringVar(&s.From, "export-from", FromNow, "where a sink begins that is new: now, or the beginning of the log")
	f.StringVar(&s.CAFile, "export-ca-file", "", "PEM file of roots that HTTPS of the export trusts besides the system's")
	f.DurationVar(&s.Timeout, "export-timeout", timeoutDefault, "how long a sink may take for an answer")
	f.BoolVar(&s.AllowPlaintext, "export-allow-plaintext", false, "send over HTTP without TLS to other hosts")
}

// Enabled reports that there is a sink.
func (s *Settings) Enabled() bool { return s.URL != "" || s.WebhookURLFile != "" || s.Traces }

// Validate reports the settings that make no sense, each by its flag.
func (s *Settings) Validate() error {
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	if s.URL != "" {
		_, err := s.target(s.URL)
		refuse(err != nil, "--export-cloudevents-url: %w", err)
	}
	refuse(!slices.Contains([]string{ModeStructured, ModeBinary, ModeBatch}, s.Mode), "--export-cloudevents-mode is structured, binary or batch, not %q", s.Mode)
	refuse((s.WebhookURLFile == "") != (s.WebhookTemplate == ""), "--export-webhook-url-file and --export-webhook-template go together")
	refuse(s.From != FromNow && s.From != FromBeginning, "--export-from is now or beginning, not %q", s.From)
	refuse(s.Timeout <= 0 || s.Timeout > timeoutMax, "--export-timeout must be positive and at most %s, is %s", timeoutMax, s.Timeout)
	for flag, kinds := range map[string][]string{"export-kinds": s.Kinds, "export-webhook-kinds": s.WebhookKinds} {
		for _, k := range kinds {
			refuse(!known(k), "--%s: there is no kind %q of records", flag, k)
		}
	}
	return errors.Join(errs...)
}

func known(kind string) bool {
	for k := range ledger.Kind(1000) {
		if k.String() == kind {
			return true
		}
	}
	return false
}

// target reads a URL. Without TLS it is on this host.
func (s *Settings) target(text string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(text))
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return nil, errors.New("want a URL such as https://events.example.com/path")
	}
	if u.Scheme == "http" && !s.AllowPlaintext && !loopback(u.Hostname()) {
		return nil, fmt.Errorf("%s is on another host and would be spoken to without TLS: use https://, or --export-allow-plaintext", u.Host)
	}
	return u, nil
}

func loopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}
