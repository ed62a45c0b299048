package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"millwright/services/console/access"
	"millwright/services/console/index"
	"millwright/services/console/view"
	"millwright/services/internal/review"
	"millwright/store"
	"millwright/store/audit/orders"
)

const (
	// bodyMax bounds what is read of an order, questionMax of a question (in JSON, quotes and line ends take
	// two bytes), answerMax what is sent.
	bodyMax     = 16 << 10
	questionMax = 2*view.PlanInputMax + bodyMax
	answerMax   = 16 << 20
	// answerTimeout bounds the making of an answer.
	answerTimeout = 25 * time.Second
)

// Reviewer says who asks, from which address, and what they may do; review.Reviewer is one.
type Reviewer interface {
	Identify(ctx context.Context, from, token string) (*review.Identity, error)
	Check(ctx context.Context, who *review.Identity, right review.Right, fresh bool) error
}

// Config of an API.
type Config struct {
	View     *view.View
	Index    *index.Index
	Log      store.Log
	Reviewer Reviewer
	Now      func() time.Time
	Logger   zerolog.Logger
	// Done is closed when the server is to stop: streams end then.
	Done <-chan struct{}
	// Counted is called once for each answer with the operation's id and the status.
	Counted func(operation string, status int, took time.Duration)
	// Version of the program, for the document.
	Version string
}

// API serves the routes.
type API struct {
	cfg      Config
	document map[string]any
	failures *review.Limiter
	each     *review.Limiter
}

// question is a request as far as an answer needs it.
type question struct {
	route   *route
	request *http.Request
	values  url.Values
	who     *review.Identity
	order   Order
	// asked is what a POST that gives no order asks.
	asked any
}

func (q *question) path(name string) string { return q.request.PathValue(name) }
func (q *question) text(name string) string { return q.values.Get(name) }
func (q *question) has(name string) bool    { return q.values.Has(name) }

// Bounds of how often one may ask: a page asks for some ten things at once.
const (
	askPerSecond, askBurst         = 30, 120
	failuresPerSecond, failuresMax = 0.5, 20
)

// New returns an API.
func New(cfg Config) *API {
	if cfg.Counted == nil {
		cfg.Counted = func(string, int, time.Duration) {}
	}
	a := &API{cfg: cfg, failures: review.NewLimiter(failuresPerSecond, failuresMax), each: review.NewLimiter(askPerSecond, askBurst)}
	a.document = document(cfg.Version)
	return a
}

// Register adds the routes to a mux.
func (a *API) Register(mux *http.ServeMux) {
	for i := range routes {
		rt := &routes[i]
		mux.HandleFunc(rt.method+" "+Prefix+rt.path, func(w http.ResponseWriter, r *http.Request) { a.serve(rt, w, r) })
	}
	mux.HandleFunc(Prefix+"/", func(w http.ResponseWriter, r *http.Request) {
		problem(w, http.StatusNotFound, "there is no such operation: "+Prefix+"/openapi.json lists them")
	})
}

func (a *API) serve(rt *route, w http.ResponseWriter, r *http.Request) {
	began := a.cfg.Now()
	sent := &counting{ResponseWriter: w, status: http.StatusOK}
	defer func() { a.cfg.Counted(rt.id, sent.status, a.cfg.Now().Sub(began)) }()
	q := &question{route: rt, request: r, values: r.URL.Query()}
	if err := a.admit(rt, r, q); err != nil {
		a.refuse(sent, rt, q, err)
		return
	}
	if rt.stream != nil {
		rt.stream(a, sent, r, q)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
	defer cancel()
	result, err := rt.answer(a, ctx, q)
	if err != nil {
		a.refuse(sent, rt, q, err)
		return
	}
	if rt.body != nil {
		a.cfg.Logger.Info().Str("operation", rt.id).Str("by", q.who.Name).Str("reason", q.order.Reason).Str("object", r.PathValue("id")).
			Uint64("revision", result.(*Recorded).Record).Msg("order recorded")
	}
	if rt.text != nil {
		sent.Header().Set("Content-Type", rt.text.kind)
		Deliver(sent, r, rt.text.of(result))
		return
	}
	send(sent, r, result)
}

// ClusterHeader of a request names the cluster that it is meant for, so that no order goes to another one.
const ClusterHeader = "Millwright-Cluster"

// admit finds out who asks, whether they may, and what they want.
func (a *API) admit(rt *route, r *http.Request, q *question) (err error) {
	if err := rt.checkQuery(q.values); err != nil {
		return err
	}
	if rt.open {
		return nil
	}
	if cluster := r.Header.Get(ClusterHeader); cluster != "" && cluster != a.cfg.View.Cluster() {
		return bad("this is the console of cluster %s, not of %s: name another context, or no cluster", a.cfg.View.Cluster(), cluster)
	}
	if q.who, err = a.Identify(r); err != nil {
		return err
	}
	if err := a.cfg.Reviewer.Check(r.Context(), q.who, rt.right, rt.body != nil || rt.recorded); err != nil {
		return err
	}
	switch {
	case rt.body != nil:
		return readBody(r, &q.order, bodyMax)
	case rt.question != nil:
		asked := reflect.New(reflect.TypeOf(rt.question))
		q.asked = asked.Interface()
		return readBody(r, q.asked, questionMax)
	}
	return nil
}

// errTooOften: they ask more than is answered.
var errTooOften = errors.New("too many requests: try again in some seconds")

// Identify returns who sends a request. Who fails at it, or asks, too often has to wait.
func (a *API) Identify(r *http.Request) (*review.Identity, error) {
	from := remote(r)
	who, err := a.identified(r)
	if errors.Is(err, review.ErrUnknown) && !a.failures.Allow(from, a.cfg.Now()) {
		return nil, errTooOften
	}
	if err != nil {
		return nil, err
	}
	access.Known(r)
	if !a.each.Allow(who.Name, a.cfg.Now()) {
		return nil, errTooOften
	}
	return who, nil
}

// identified is whom a proxy vouches for, or whose token it is.
func (a *API) identified(r *http.Request) (*review.Identity, error) {
	if who := access.Proxied(r); who != nil {
		return who, nil
	}
	token := access.TokenOf(r)
	if token == "" {
		return nil, review.ErrUnknown
	}
	return a.cfg.Reviewer.Identify(r.Context(), remote(r), token)
}

// remote is the address a request comes from, without its port.
func remote(r *http.Request) string {
	if i := strings.LastIndexByte(r.RemoteAddr, ':'); i > 0 {
		return r.RemoteAddr[:i]
	}
	return r.RemoteAddr
}

// readBody reads one JSON object of at most that many bytes.
func readBody(r *http.Request, into any, most int64) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return bad("content type is %q, must be application/json", r.Header.Get("Content-Type"))
	}
	d := json.NewDecoder(io.LimitReader(r.Body, most+1))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return bad("read body: %v", err)
	}
	if d.InputOffset() > most || d.More() {
		return bad("read body: more than one object of at most %d bytes", most)
	}
	return nil
}

// checkQuery refuses parameters that the route does not have: a typing error must not widen an answer.
func (rt *route) checkQuery(values url.Values) error {
	for name, given := range values {
		p := rt.parameter(name)
		switch {
		case p == nil:
			return bad("parameter %q is not known", name)
		case len(given) > 1 && !p.repeated || len(given) > 50:
			return bad("parameter %q is given %d times", name, len(given))
		}
	}
	return nil
}

func (rt *route) parameter(name string) *parameter {
	for i := range rt.parameters {
		if rt.parameters[i].name == name && !rt.inPath(name) {
			return &rt.parameters[i]
		}
	}
	return nil
}

func (rt *route) inPath(name string) bool {
	return strings.Contains(rt.path, "{"+name+"}") || strings.Contains(rt.path, "{"+name+"...}")
}

// refuse answers with what went wrong.
func (a *API) refuse(w http.ResponseWriter, rt *route, q *question, err error) {
	status, text := a.failure(rt, err)
	switch status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Bearer realm="millwright"`)
		text = "sign in: send a bearer token of the cluster that the API server knows"
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		w.Header().Set("Retry-After", "5")
	}
	if q.who != nil && (status == http.StatusForbidden || rt.body != nil || rt.recorded) {
		a.cfg.Logger.Warn().Str("operation", rt.id).Str("by", q.who.Name).Str("object", q.path("id")).Int("status", status).Str("text", text).Msg("order or request refused")
	}
	problem(w, status, text)
}

// failure is the status and the text of an error. What is the server's own fault is logged, and not told.
func (a *API) failure(rt *route, err error) (status int, text string) {
	if status = StatusOf(err); status == http.StatusInternalServerError {
		a.cfg.Logger.Error().Err(err).Str("operation", rt.id).Msg("request failed")
		return status, "the console failed; its log says why"
	}
	return status, err.Error()
}

// StatusOf is the HTTP status that an error means.
func StatusOf(err error) int {
	var wrong *badError
	switch {
	case errors.As(err, &wrong), errors.Is(err, view.ErrQuestion):
		return http.StatusBadRequest
	case errors.Is(err, review.ErrUnknown):
		return http.StatusUnauthorized
	case errors.Is(err, review.ErrForbidden):
		return http.StatusForbidden
	case errors.Is(err, view.ErrNotFound), errors.Is(err, orders.ErrUnknown):
		return http.StatusNotFound
	case errors.Is(err, orders.ErrAnswered), errors.Is(err, store.ErrConflict):
		return http.StatusConflict
	case errors.Is(err, errTooOften), errors.Is(err, review.ErrBusy), errors.Is(err, view.ErrPlanning), errors.Is(err, view.ErrAsking):
		return http.StatusTooManyRequests
	case errors.Is(err, errTooLarge):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, review.ErrUnavailable), errors.Is(err, view.ErrNotReady), errors.Is(err, view.ErrBusy), errors.Is(err, index.ErrTooManyTails),
		errors.Is(err, store.ErrRefused), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

func problem(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	b, err := json.Marshal(Problem{Status: status, Message: text})
	if err != nil {
		b = fmt.Appendf(nil, `{"status":%d}`, status)
	}
	_, _ = w.Write(append(b, '\n'))
}

// counting remembers the status.
type counting struct {
	http.ResponseWriter
	status int
}

func (c *counting) WriteHeader(status int) {
	c.status = status
	c.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController find what it needs.
func (c *counting) Unwrap() http.ResponseWriter { return c.ResponseWriter }
