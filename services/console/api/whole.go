package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"millwright/services/console/view"
)

const (
	// ResultHeader is the trailer of a bundle: ResultWhole, or what went wrong with it.
	ResultHeader = "Millwright-Result"
	ResultWhole  = "whole"
	// BundleType is the content type of a bundle.
	BundleType = "application/zip"
	// EventResult and EventError end what is told piece by piece.
	EventResult = "result"
	EventError  = "error"
)

var errStopping = errors.New("the console stops")

// Lasting is the context of a request that lasts; it ends with the server too. stop may be called again.
func (a *API) Lasting(r *http.Request) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(r.Context())
	go func() {
		select {
		case <-a.cfg.Done:
			cancel(fmt.Errorf("%w: %w", view.ErrNotReady, errStopping))
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// told sends server-sent events from the moment that there is one. Until then a failure is an answer like
// others.
type told struct {
	mu   sync.Mutex
	to   *stream
	sent bool
}

func (t *told) write(text string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.sent {
		t.sent = true
		h := t.to.w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-store")
		h.Set("X-Accel-Buffering", "no")
	}
	t.to.write(text)
	return t.to.err
}

func (t *told) tell(event string, value any) error {
	b, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode %s: %w", event, err)
	}
	return t.write(fmt.Sprintf("event: %s\ndata: %s\n\n", event, b))
}

// beat says every now and then that the work goes on, once it has begun; it stops with ctx.
func (t *told) beat(ctx context.Context, cancel func()) {
	every := time.NewTicker(beatEvery)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			t.mu.Lock()
			begun := t.sent
			t.mu.Unlock()
			if begun && t.write(": still here\n\n") != nil {
				cancel() // nobody listens any more
				return
			}
		}
	}
}

// tellAll answers with what fn tells, and then with its result or what went wrong.
func (a *API) tellAll(w http.ResponseWriter, r *http.Request, q *question, fn func(context.Context, view.Tell) (any, error)) {
	ctx, stop := a.Lasting(r)
	t := &told{to: &stream{w: w, control: http.NewResponseController(w)}}
	var beats sync.WaitGroup
	beats.Go(func() { t.beat(ctx, stop) })
	result, err := fn(ctx, t.tell)
	stop()
	beats.Wait()
	switch {
	case err == nil:
		_ = t.tell(EventResult, result) // who asked may have gone
	case !t.sent:
		a.refuse(w, q.route, q, err)
	default:
		status, text := a.failure(q.route, err)
		_ = t.tell(EventError, Problem{Status: status, Message: text})
	}
}

// verify checks the chain of the log.
func (a *API) verify(w http.ResponseWriter, r *http.Request, q *question) {
	record, err := uint64(0), error(nil)
	if q.has("record") {
		if record, err = strconv.ParseUint(q.text("record"), 10, 64); err != nil {
			a.refuse(w, q.route, q, bad("record %q: must be the sequence of a record", q.text("record")))
			return
		}
	}
	a.tellAll(w, r, q, func(ctx context.Context, tell view.Tell) (any, error) {
		return a.cfg.View.Verify(ctx, q.who.Name, record, tell)
	})
}

// replayRange takes decisions again.
func (a *API) replayRange(w http.ResponseWriter, r *http.Request, q *question) {
	a.tellAll(w, r, q, func(ctx context.Context, tell view.Tell) (any, error) {
		return a.cfg.View.ReplayRange(ctx, q.who.Name, *q.asked.(*view.RangeRequest), tell)
	})
}

// shadowReport compares what happened with what was decided in mode shadow.
func (a *API) shadowReport(w http.ResponseWriter, r *http.Request, q *question) {
	a.tellAll(w, r, q, func(ctx context.Context, tell view.Tell) (any, error) {
		return a.cfg.View.ShadowReport(ctx, q.who.Name, q.text("since"), tell)
	})
}

// bundle sends a bundle. Whether it is whole says the trailer.
func (a *API) bundle(w http.ResponseWriter, r *http.Request, q *question) {
	asked := *q.asked.(*view.BundleRequest)
	var err error
	if asked.Reason, err = reason(asked.Reason); err != nil {
		a.refuse(w, q.route, q, err)
		return
	}
	ctx, stop := a.Lasting(r)
	defer stop()
	begun := false
	taken, err := a.cfg.View.Bundle(ctx, q.who.Name, asked, func() io.Writer {
		begun = true
		h := w.Header()
		h.Set("Content-Type", BundleType)
		h.Set("Content-Disposition", `attachment; filename="millwright-bundle.zip"`)
		h.Set("Cache-Control", "no-store")
		h.Set("Trailer", ResultHeader)
		return punctual{w, http.NewResponseController(w)}
	})
	switch {
	case err == nil:
		w.Header().Set(ResultHeader, ResultWhole)
		a.cfg.Logger.Info().Str("operation", q.route.id).Str("by", q.who.Name).Str("reason", taken.Why).Str("object", taken.About).
			Uint64("from", taken.From).Uint64("to", taken.To).Msg("bundle taken")
	case !begun:
		a.refuse(w, q.route, q, err)
	default:
		_, text := a.failure(q.route, err)
		a.cfg.Logger.Warn().Str("operation", q.route.id).Str("by", q.who.Name).Str("text", text).Msg("bundle not sent whole")
		w.Header().Set(ResultHeader, strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), "?"))
	}
}

// punctual gives each write a deadline.
type punctual struct {
	w       io.Writer
	control *http.ResponseController
}

func (p punctual) Write(b []byte) (int, error) {
	if err := p.control.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, fmt.Errorf("send: %w", err)
	}
	n, err := p.w.Write(b)
	if err == nil {
		err = p.control.SetWriteDeadline(time.Time{}) // as a stream does: HTTP/2 ends a quiet one otherwise
	}
	if err != nil {
		return n, fmt.Errorf("send: %w", err)
	}
	return n, nil
}
