package export

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"millwright/store"
	"millwright/store/audit"
	"millwright/store/audit/line"
)

// sinkWebhook is the name of the sink of messages, in its cursor and metrics.
const sinkWebhook = "webhook"

// Message is what a template of --export-webhook-template is given.
type Message struct {
	line.Line
	// Cluster by name; ID is that of the CloudEvent of the same record.
	Cluster, ID string
	// Subject is the object that the record is about first of all; "" if it is about the whole cluster.
	Subject string
	// Decision: it was planned; otherwise it says what was done, or came of it.
	Decision bool
	// Content is the payload, as maps, lists, texts and numbers.
	Content any
}

// webhook is the sink of messages for people.
type webhook struct {
	maker
	cluster  string
	settings *Settings
	template *template.Template
	poster   *poster
}

func newWebhook(cfg Config) (string, sink, error) {
	if cfg.Settings.WebhookURLFile == "" {
		return "", nil, nil
	}
	text, err := os.ReadFile(cfg.Settings.WebhookTemplate)
	if err != nil {
		return "", nil, fmt.Errorf("--export-webhook-template: %w", err)
	}
	t, err := ParseTemplate(filepath.Base(cfg.Settings.WebhookTemplate), string(text))
	if err != nil {
		return "", nil, fmt.Errorf("--export-webhook-template: %w", err)
	}
	p, err := newPoster(cfg, cfg.Settings.WebhookHeadersFile)
	if err != nil {
		return "", nil, err
	}
	w := &webhook{maker: newMaker(cfg, cfg.Settings.WebhookKinds, webhookKinds), cluster: cfg.Cluster, settings: &cfg.Settings, template: t, poster: p}
	if _, err := w.request(nil); err != nil {
		return "", nil, fmt.Errorf("--export-webhook-url-file: %w", err)
	}
	return sinkWebhook, w, nil
}

// ParseTemplate reads a template of messages. Besides the functions of text/template there are json (a value
// as JSON), clip N TEXT (at most N bytes of a text) and dollars (of micro-dollars).
func ParseTemplate(name, text string) (*template.Template, error) {
	return template.New(name).Option("missingkey=zero").Funcs(template.FuncMap{
		"json": func(v any) (string, error) {
			var b bytes.Buffer
			enc := json.NewEncoder(&b)
			enc.SetEscapeHTML(false)
			err := enc.Encode(v)
			return strings.TrimSpace(b.String()), err
		},
		"clip": clip, "dollars": dollars,
	}).Parse(text)
}

// clip shortens a text between characters.
func clip(n int, text string) string {
	if n < 0 || len(text) <= n {
		return text
	}
	for n > 0 && text[n]&0xC0 == 0x80 {
		n--
	}
	return text[:n] + "…"
}

// dollars of micro-dollars, as numbers of JSON or of Go.
func dollars(v any) (string, error) {
	var n json.Number
	switch v := v.(type) {
	case nil:
		n = "0"
	case json.Number:
		n = v
	default:
		n = json.Number(fmt.Sprint(v))
	}
	f, err := n.Float64()
	return fmt.Sprintf("$%.4f", f/1e6), err
}

// Render executes a template. A message of white space alone is none.
func Render(t *template.Template, m Message) ([]byte, error) {
	var b limited
	if err := t.Execute(&b, m); err != nil {
		return nil, fmt.Errorf("make message of record %d: %w", m.Seq, err)
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// limited is a buffer of at most dataBytesMax.
type limited struct{ bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	if l.Len()+len(p) > dataBytesMax {
		return 0, fmt.Errorf("it is longer than %d bytes", dataBytesMax)
	}
	return l.Buffer.Write(p)
}

func (w *webhook) encode(rec store.Record) (any, error) {
	l, e, wanted, err := w.line(rec)
	if err != nil || !wanted {
		return nil, err
	}
	m := Message{Line: l, Cluster: w.cluster, ID: w.eventID(rec), Subject: subjectOf(e, w.logID), Decision: audit.IsDecision(e)}
	numbers := json.NewDecoder(bytes.NewReader(l.Payload))
	numbers.UseNumber()
	_ = numbers.Decode(&m.Content) // a record without payload has none
	text, err := Render(w.template, m)
	if err != nil || len(text) == 0 {
		return nil, err
	}
	return text, nil
}

func (w *webhook) atOnce() int { return 1 }

func (w *webhook) send(ctx context.Context, bodies []any) error {
	r, err := w.request(bodies[0].([]byte))
	if err != nil {
		return err
	}
	return w.poster.post(ctx, r)
}

// request to the URL that the file holds now.
func (w *webhook) request(body []byte) (*http.Request, error) {
	text, err := readSmall(w.settings.WebhookURLFile)
	if err != nil {
		return nil, fmt.Errorf("read URL of the webhook: %w", err)
	}
	u, err := w.settings.target(string(text))
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequest(http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("the URL of the webhook is none")
	}
	kind := "text/plain; charset=utf-8"
	if json.Valid(body) {
		kind = "application/json"
	}
	r.Header.Set("Content-Type", kind)
	return r, nil
}
