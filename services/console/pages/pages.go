package pages

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"millwright/services/console/access"
	"millwright/services/console/api"
	"millwright/services/console/index"
	"millwright/services/console/view"
	"millwright/services/internal/review"
)

//go:embed templates static
var files embed.FS

const (
	// FormMax bounds what is read of a form.
	FormMax       = 16 << 10
	answerTimeout = 25 * time.Second
	// againAfter is when a page that could not be made yet is asked for again, in seconds.
	againAfter = 4
	// failed is what is told of what is the console's own fault.
	failed = "The console failed; its log says why."
)

// Config of Pages.
type Config struct {
	Cluster string
	View    *view.View
	Index   *index.Index
	// API knows who asks, and records orders.
	API      *api.API
	Reviewer api.Reviewer
	Now      func() time.Time
	Logger   zerolog.Logger
	// Counted is called once for each page with its name and the status.
	Counted func(page string, status int, took time.Duration)
}

// Pages serves them.
type Pages struct {
	cfg       Config
	templates map[string]*template.Template
	// version of the static files, so that a browser asks for those that belong to the page.
	version string
}

// New parses the templates.
func New(cfg Config) *Pages {
	p := &Pages{cfg: cfg, templates: map[string]*template.Template{}, version: versionOf(files)}
	for _, name := range []string{"now", "timeline", "savings", "decisions", "decision", "object", "commands", "plan", "replay", "facts", "shadow", "login", "problem"} {
		t := template.New("layout.html").Funcs(functions(cfg.Now, p.version))
		p.templates[name] = template.Must(t.ParseFS(files, "templates/layout.html", "templates/parts.html", "templates/"+name+".html"))
	}
	return p
}

// versionOf is a digest of the static files.
func versionOf(files fs.FS) string {
	h := sha256.New()
	_ = fs.WalkDir(files, "static", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			data, _ := fs.ReadFile(files, path)
			h.Write(data)
		}
		return nil
	})
	return hex.EncodeToString(h.Sum(nil)[:6])
}

// page is what every template gets.
type page struct {
	Title, Cluster, At string
	// Who is signed in; "" if nobody is. MayAnswer and MayStop: they may approve and reject, stop and resume.
	Who                string
	MayAnswer, MayStop bool
	// Said is what came of the last order.
	Said string
	// Again is after how many seconds the browser is to ask again; 0: not by itself.
	Again int
	Data  any
}

// request of somebody who is signed in.
type request struct {
	*http.Request
	who *review.Identity
}

// Register adds the pages to a mux.
func (p *Pages) Register(mux *http.ServeMux) {
	mux.Handle("GET /{$}", p.reading("now", p.now))
	mux.Handle("GET /timeline", p.reading("timeline", p.timeline))
	mux.Handle("GET /savings", p.reading("savings", p.savings))
	mux.Handle("GET /decisions", p.reading("decisions", p.decisions))
	mux.Handle("GET /decisions/{seq}", p.reading("decision", p.decision))
	mux.Handle("GET /decisions/{seq}/replay", p.asking("replay", p.replay))
	mux.Handle("GET /decisions/{seq}/facts", p.asking("facts", p.facts))
	mux.Handle("GET /object/{kind}/{name...}", p.reading("object", p.object))
	mux.Handle("GET /object", http.HandlerFunc(find))
	mux.Handle("GET /plan", p.reading("plan", p.planForm))
	mux.HandleFunc("POST /plan", p.plan)
	mux.HandleFunc("GET /shadow", p.shadow)
	mux.Handle("GET /commands", p.reading("commands", p.commands))
	mux.Handle("POST /commands/{id}/{answer}", p.acting(access.Approve, p.answer))
	mux.Handle("POST /control/{level}", p.acting(access.Control, p.control))
	mux.HandleFunc("GET /login", p.loginForm)
	mux.HandleFunc("POST /login", p.login)
	mux.HandleFunc("POST /logout", logout)
	mux.HandleFunc("GET /static/{file}", p.static)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		p.fail(w, r, nil, fmt.Errorf("%w: there is no page %s", view.ErrNotFound, r.URL.Path))
	})
}

// made is a page's title and data, or why there is none.
type made func(ctx context.Context, r *request) (title string, data any, err error)

func (p *Pages) reading(name string, make made) http.Handler {
	return p.showing(access.Read, name, make)
}

// asking makes a page that is planned for.
func (p *Pages) asking(name string, make made) http.Handler {
	return p.showing(access.Plan, name, make)
}

func (p *Pages) showing(right review.Right, name string, make made) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := p.admit(w, r, right, false)
		if q == nil {
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
		defer cancel()
		title, data, err := make(ctx, q)
		if err != nil {
			p.fail(w, r, q, err)
			return
		}
		p.show(w, q, http.StatusOK, name, title, data)
	})
}

// admit finds out who asks and whether they may. Otherwise it answers, and returns nil.
func (p *Pages) admit(w http.ResponseWriter, r *http.Request, right review.Right, fresh bool) *request {
	who, err := p.cfg.API.Identify(r)
	if errors.Is(err, review.ErrUnknown) {
		p.askToSignIn(w, r)
		return nil
	}
	if err == nil {
		err = p.cfg.Reviewer.Check(r.Context(), who, right, fresh)
	}
	if err != nil {
		p.fail(w, r, &request{r, who}, err)
		return nil
	}
	return &request{r, who}
}

// askToSignIn sends a browser to the form. Who comes by a link from another site shows no cookie at first,
// since it is for requests of this site alone: they are asked to come again.
func (p *Pages) askToSignIn(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Site") == "cross-site" {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		fmt.Fprintf(w, `<!doctype html><title>Millwright</title><meta http-equiv="refresh" content="0;url=%s">`, template.HTMLEscapeString(r.URL.RequestURI()))
		return
	}
	next := "/"
	if r.Method == http.MethodGet {
		next = r.URL.RequestURI()
	}
	http.Redirect(w, r, "/login?next="+url.QueryEscape(next), http.StatusSeeOther)
}

// acting takes an order from a form. act returns where to go on.
func (p *Pages) acting(right review.Right, act func(r *request) (said, next string, err error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, FormMax)
		q := p.admit(w, r, right, true)
		if q == nil {
			return
		}
		said, next, err := act(q)
		if err != nil {
			p.cfg.Logger.Warn().Err(err).Str("by", q.who.Name).Str("path", r.URL.Path).Msg("order refused")
			p.fail(w, r, q, err)
			return
		}
		p.cfg.Logger.Info().Str("by", q.who.Name).Str("path", r.URL.Path).Str("text", said).Msg("order recorded")
		http.Redirect(w, r, next+"?said="+url.QueryEscape(said), http.StatusSeeOther)
	})
}

// fail shows what went wrong.
func (p *Pages) fail(w http.ResponseWriter, r *http.Request, q *request, err error) {
	if q == nil {
		q = &request{Request: r}
	}
	status := api.StatusOf(err)
	text := err.Error()
	if status == http.StatusInternalServerError {
		p.cfg.Logger.Error().Err(err).Str("path", r.URL.Path).Msg("page failed")
		text = failed
	}
	p.show(w, q, status, "problem", http.StatusText(status), text)
}

// page is what all templates get for a request.
func (p *Pages) page(q *request, title string, data any) page {
	x := page{Title: title, Cluster: p.cfg.Cluster, At: p.cfg.Now().UTC().Format("2006-01-02 15:04:05 UTC"), Data: data}
	if q.who != nil {
		x.Who = q.who.Name
	}
	return x
}

func (p *Pages) show(w http.ResponseWriter, q *request, status int, name, title string, data any) {
	began := p.cfg.Now()
	x := p.page(q, title, data)
	if status == http.StatusServiceUnavailable && q.Method == http.MethodGet {
		x.Again = againAfter
	}
	if name == "commands" {
		x.Said = clip(q.URL.Query().Get("said"), 300)
	}
	if q.who != nil && name == "commands" {
		x.MayAnswer = p.cfg.Reviewer.Check(q.Context(), q.who, access.Approve, false) == nil
		x.MayStop = p.cfg.Reviewer.Check(q.Context(), q.who, access.Control, false) == nil
	}
	var body bytes.Buffer
	if err := p.templates[name].Execute(&body, x); err != nil {
		p.cfg.Logger.Error().Err(err).Str("page", name).Msg("page not made")
		http.Error(w, "the page could not be made", http.StatusInternalServerError)
		return
	}
	p.cfg.Counted("page_"+name, status, p.cfg.Now().Sub(began))
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if status != http.StatusOK {
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(status)
		_, _ = w.Write(body.Bytes())
		return
	}
	api.Deliver(w, q.Request, body.Bytes())
}

func (p *Pages) static(w http.ResponseWriter, r *http.Request) {
	data, err := fs.ReadFile(files, "static/"+r.PathValue("file"))
	if err != nil {
		http.NotFound(w, r)
		return
	}
	kinds := map[string]string{"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
	w.Header().Set("Content-Type", kinds[r.PathValue("file")[strings.LastIndexByte(r.PathValue("file"), '.')+1:]])
	api.Deliver(w, r, data)
}
