package export

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/cloudevents/sdk-go/v2/binding"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"

	"github.com/cloudevents/sdk-go/v2/event"

	"millwright/planner/ledger"
	"millwright/store"
	"millwright/store/audit"
	"millwright/store/audit/line"
)

const (
	// sinkEvents is the name of the sink of CloudEvents, in its cursor and metrics.
	sinkEvents = "cloudevents"
	// dataBytesMax bounds the data of an event: explanation, then payload of a longer one stay out.
	dataBytesMax = 1 << 20
	batchMax     = 16
	// textBytesMax bounds the sentence of such a record.
	textBytesMax = 4 << 10
	// DataSchema names the form of the data: docs/export.md describes it.
	DataSchema = "urn:millwright:schema:record:1"
)

// Types of events begin with one of these.
const (
	typeDecision = "sh.millwright.decision."
	typeOutcome  = "sh.millwright.outcome."
)

// events is the sink of CloudEvents.
type events struct {
	maker
	target *url.URL
	mode   string
	poster *poster
}

func newEvents(cfg Config) (string, sink, error) {
	if cfg.Settings.URL == "" {
		return "", nil, nil
	}
	target, err := cfg.Settings.target(cfg.Settings.URL)
	if err != nil {
		return "", nil, fmt.Errorf("--export-cloudevents-url: %w", err)
	}
	p, err := newPoster(cfg, cfg.Settings.HeadersFile)
	if err != nil {
		return "", nil, err
	}
	return sinkEvents, &events{target: target, mode: cfg.Settings.Mode, poster: p, maker: newMaker(cfg, cfg.Settings.Kinds, nil)}, nil
}

func (s *events) encode(rec store.Record) (any, error) {
	l, e, wanted, err := s.line(rec)
	if err != nil || !wanted {
		return nil, err
	}
	return s.event(rec, l, e)
}

func (s *events) atOnce() int {
	if s.mode == ModeBatch {
		return batchMax
	}
	return 1
}

func (s *events) send(ctx context.Context, bodies []any) error {
	list := make([]event.Event, len(bodies))
	for i, b := range bodies {
		list[i] = *b.(*event.Event)
	}
	if s.mode == ModeBatch {
		r, err := cehttp.NewHTTPRequestFromEvents(ctx, s.target.String(), list)
		if err != nil {
			return fmt.Errorf("encode events: %w", err)
		}
		return s.poster.post(ctx, r)
	}
	r := &http.Request{Method: http.MethodPost, URL: s.target, Header: http.Header{}}
	how := binding.WithForceStructured(ctx)
	if s.mode == ModeBinary {
		how = binding.WithForceBinary(ctx)
	}
	if err := cehttp.WriteRequest(how, binding.ToMessage(&list[0]), r); err != nil {
		return fmt.Errorf("encode event: %w", err)
	}
	return s.poster.post(ctx, r)
}

// maker makes lines and events of the records of some kinds. It depends on no earlier record.
type maker struct {
	logID, source string
	kinds         []string
}

// newMaker is for the kinds, for the defaults if there are none, and for all but the log's own affairs
// without defaults.
func newMaker(cfg Config, kinds, defaults []string) maker {
	if len(kinds) == 0 {
		kinds = defaults
	}
	return maker{logID: cfg.Log.ID(), source: "/millwright/clusters/" + url.PathEscape(cfg.Cluster), kinds: kinds}
}

func (maker) open() uint64 { return 0 }
func (maker) reset()       {}

// line of a record, if it is wanted.
func (m maker) line(rec store.Record) (l line.Line, e ledger.Entry, wanted bool, err error) {
	kind := ledger.Kind(rec.Kind).String()
	if wanted = slices.Contains(m.kinds, kind) || len(m.kinds) == 0 && !slices.Contains(housekeeping, kind); !wanted {
		return l, e, false, nil
	}
	defer func() {
		if p := recover(); p != nil { // a payload that no program of ours wrote
			err = fmt.Errorf("describe record %d: %v", rec.Seq, p)
		}
	}()
	if e, err = line.Decode(rec); err != nil {
		return l, e, true, err
	}
	return line.Of(rec, e, m.logID), e, true, nil
}

// eventID is the same each time a record is sent. It holds the beginning of the record's hash, for a log that
// was restored from a backup has other records under numbers that were sent.
func (m maker) eventID(rec store.Record) string {
	return fmt.Sprintf("%s.%d.%s", m.logID, rec.Seq, hex.EncodeToString(rec.Hash[:4]))
}

func (m maker) event(rec store.Record, l line.Line, e ledger.Entry) (*event.Event, error) {
	data, err := json.Marshal(l)
	if err == nil && len(data) > dataBytesMax {
		l.Explanation = json.RawMessage(`{"omitted":"too long: millctl log has it"}`)
		data, err = json.Marshal(l)
	}
	if err == nil && len(data) > dataBytesMax {
		l.Payload = json.RawMessage(`{"omitted":"too long: millctl log has it"}`)
		l.Text = clip(textBytesMax, l.Text)
		l.Subjects, l.Advances = l.Subjects[:min(len(l.Subjects), 100)], l.Advances[:min(len(l.Advances), 100)]
		data, err = json.Marshal(l)
	}
	if err != nil {
		return nil, fmt.Errorf("encode record %d: %w", rec.Seq, err)
	}
	v := event.New()
	v.SetID(m.eventID(rec))
	v.SetSource(m.source)
	v.SetTime(rec.Time)
	v.SetDataSchema(DataSchema)
	prefix := typeOutcome
	if audit.IsDecision(e) {
		prefix = typeDecision
	}
	v.SetType(prefix + l.Kind)
	if subject := subjectOf(e, m.logID); subject != "" {
		v.SetSubject(subject)
	}
	v.SetExtension("mode", string(l.Mode))
	v.SetExtension("sequence", fmt.Sprintf("%020d", rec.Seq)) // the extension of that name: texts that sort as numbers
	if err := v.SetData(event.ApplicationJSON, json.RawMessage(data)); err != nil {
		return nil, fmt.Errorf("encode record %d: %w", rec.Seq, err)
	}
	return &v, v.Validate()
}

// subjectOf is the object that a record is about first of all; "" if it is about the whole cluster.
func subjectOf(e ledger.Entry, logID string) string {
	if len(e.Subjects) > 0 {
		return e.Subjects[0]
	}
	if all := audit.Mentions(e, logID); len(all) > 0 {
		return all[0]
	}
	return ""
}
