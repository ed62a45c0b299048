package pages

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"time"

	"millwright/services/console/access"
	"millwright/services/console/api"
	"millwright/services/console/view"
	"millwright/store/audit/shadow"
)

// shadowWhyShown bounds the reasons of a decision that are shown.
const shadowWhyShown = 6

// shadowPage compares what happened beside another controller with what was decided in mode shadow.
type shadowPage struct {
	// May: they may ask. Problem is why there is no report.
	May     bool
	Problem string
	Since   string
	Choices []choice
	*shadow.Report
	Cost, Nodes versus
	WhyShown    int
}

// versus are the curves of both sides, and the most that either comes to.
type versus struct {
	Name               string
	Actual, Millwright string
	Most               int64
	Width, Height      int
}

// shadow shows the form, and makes the report once a span is chosen. That takes seconds to minutes, so the
// page is sent as it is made: how far it is comes line by line, and the report in the end. Who leaves
// ends it.
func (p *Pages) shadow(w http.ResponseWriter, r *http.Request) {
	const name, title = "shadow", "Shadow"
	q := p.admit(w, r, access.Read, false)
	if q == nil {
		return
	}
	allowed := p.cfg.Reviewer.Check(r.Context(), q.who, access.Plan, false)
	x := &shadowPage{May: allowed == nil, Since: r.URL.Query().Get("since"), WhyShown: shadowWhyShown}
	if x.Since == "" {
		x.Choices = choices(view.ShadowSince)
		p.show(w, q, http.StatusOK, name, title, x)
		return
	}
	if allowed != nil {
		p.fail(w, r, q, allowed)
		return
	}
	x.Choices = choices(x.Since)
	s := &sending{pages: p, page: p.page(q, title, x), name: name, header: w.Header(), send: api.Pieces(w)}
	ctx, stop := p.cfg.API.Lasting(r)
	defer stop()
	began, err := p.cfg.Now(), error(nil)
	x.Report, err = p.cfg.View.ShadowReport(ctx, q.who.Name, x.Since, func(_ string, progress any) error { return s.told(progress) })
	status := http.StatusOK
	switch {
	case err == nil:
		x.draw()
	default:
		status = api.StatusOf(err)
		if x.Problem = err.Error(); status == http.StatusInternalServerError {
			p.cfg.Logger.Error().Err(err).Str("path", r.URL.Path).Msg("page failed")
			x.Problem = failed
		}
	}
	if !s.begun {
		p.show(w, q, status, name, title, x)
		return
	}
	s.end()
	p.cfg.Counted("page_"+name, status, p.cfg.Now().Sub(began))
}

// sending is a page that is sent as it is made.
type sending struct {
	pages  *Pages
	page   page
	name   string
	header http.Header
	send   func(text string) error
	begun  bool
}

// told sends how far it is, and what comes before that.
func (s *sending) told(progress any) error {
	if !s.begun {
		s.begun = true
		s.header.Set("Content-Type", "text/html; charset=utf-8")
		s.header.Set("Cache-Control", "no-store")
		s.header.Set("X-Accel-Buffering", "no")
		if err := s.piece("top", s.page); err != nil {
			return err
		}
		if err := s.piece("begin", s.page); err != nil {
			return err
		}
	}
	return s.piece("told", progress)
}

// end sends the rest. Whether anybody still reads does not matter.
func (s *sending) end() {
	if s.piece("end", s.page) == nil {
		_ = s.piece("bottom", s.page)
	}
}

func (s *sending) piece(name string, data any) error {
	var text bytes.Buffer
	if err := s.pages.templates[s.name].ExecuteTemplate(&text, name, data); err != nil {
		return fmt.Errorf("make page %s: %w", s.name, err)
	}
	return s.send(text.String())
}

// draw makes the pictures.
func (x *shadowPage) draw() {
	x.Cost = x.curves("Cost per hour", func(p *shadow.Point) (int64, int64) { return p.ActualPrice, p.MillwrightPrice })
	x.Nodes = x.curves("Nodes", func(p *shadow.Point) (int64, int64) { return int64(p.ActualNodes), int64(p.MillwrightNodes) })
}

func (x *shadowPage) curves(name string, of func(*shadow.Point) (actual, millwright int64)) versus {
	v := versus{Name: name, Width: pictureWidth, Height: curveHeight}
	for i := range x.Curve {
		a, m := of(&x.Curve[i])
		v.Most = max(v.Most, a, m)
	}
	whole := max(x.To.Sub(x.From), time.Second)
	var actual, millwright strings.Builder
	for i := range x.Curve {
		a, m := of(&x.Curve[i])
		at := across(x.Curve[i].At.Sub(x.From), whole)
		step(&actual, at, height(a, v.Most))
		step(&millwright, at, height(m, v.Most))
	}
	if len(x.Curve) > 0 {
		fmt.Fprintf(&actual, "H%d", pictureWidth)
		fmt.Fprintf(&millwright, "H%d", pictureWidth)
	}
	v.Actual, v.Millwright = actual.String(), millwright.String()
	return v
}
