package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
)

const (
	// answerTimeout is how long the API server may take to begin an answer. By default it gives up after 60 s
	// itself; nothing that it has taken longer for is of use.
	answerTimeout = 90 * time.Second
	// beginTimeout is the same for a watch, which it begins at once.
	beginTimeout = 30 * time.Second
)

// errUnanswered: the API server, or what is before it, has taken a request and does not answer.
var errUnanswered = errors.New("no answer in time")

// EndUnanswered makes the clients that are built from a configuration afterwards give up requests whose
// answers do not begin. The connection may be alive, and most of what client-go does by itself (lists and
// watches of informers, events) has no deadline: it would wait for ever, and what queues up behind it too.
func EndUnanswered(cfg *rest.Config) { endUnanswered(cfg, answerTimeout, beginTimeout) }

func endUnanswered(cfg *rest.Config, answer, begin time.Duration) {
	cfg.Wrap(func(base http.RoundTripper) http.RoundTripper { return answered{base, answer, begin} })
}

type answered struct {
	base          http.RoundTripper
	answer, begin time.Duration
}

// RoundTrip implements http.RoundTripper.
func (t answered) RoundTrip(r *http.Request) (*http.Response, error) {
	limit := t.answer
	if r.URL.Query().Get("watch") != "" {
		limit = t.begin
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	timer := time.AfterFunc(limit, func() { cancel(errUnanswered) })
	answer, err := t.base.RoundTrip(r.WithContext(ctx))
	inTime := timer.Stop()
	if err == nil && inTime {
		answer.Body = &answerBody{answer.Body, cancel}
		return answer, nil
	}
	if err == nil { // the timer has fired, and may not have ended the context yet
		_ = answer.Body.Close()
	}
	if err == nil || errors.Is(context.Cause(ctx), errUnanswered) {
		err = fmt.Errorf("%w: %s", errUnanswered, limit)
	}
	cancel(err)
	return nil, err
}

// WrappedRoundTripper is where client-go finds what is below.
func (t answered) WrappedRoundTripper() http.RoundTripper { return t.base }

// answerBody ends the context of its request when it is closed.
type answerBody struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

// Close implements io.Closer.
func (b *answerBody) Close() error {
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}
