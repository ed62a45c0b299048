package clock

import (
	"context"
	"fmt"
	"net/http"
)

// Transport compares the clock with the Date of every answer that base returns. nil is http.DefaultTransport.
func (c *Clock) Transport(witness string, base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return transport{clock: c, witness: witness, base: base}
}

type transport struct {
	clock   *Clock
	witness string
	base    http.RoundTripper
}

// RoundTrip accepts any answer as a witness, including a refusal; one without a Date, or from a cache, is not
// accepted.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	asked := t.clock.Monotonic()
	answer, err := t.base.RoundTrip(r)
	if err != nil {
		return answer, err
	}
	if date, err := http.ParseTime(answer.Header.Get("Date")); err == nil && answer.Header.Get("Age") == "" {
		t.clock.Witness(t.witness, asked, date)
		t.clock.reachedAt(t.witness, place{t, r.URL.Scheme, r.URL.Host})
	}
	return answer, nil
}

// place is where a witness answered.
type place struct {
	transport    transport
	scheme, host string
}

func (c *Clock) reachedAt(witness string, at place) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reached[witness] = at
}

// askWitness asks a witness again that answered before: without credentials and for nothing, since a refusal
// states the time as well.
func (c *Clock) askWitness(ctx context.Context, witness string) error {
	c.mu.Lock()
	at, known := c.reached[witness]
	c.mu.Unlock()
	if !known {
		return nil
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodHead, at.scheme+"://"+at.host+"/", nil)
	if err != nil {
		return fmt.Errorf("ask %s for the time: %w", witness, err)
	}
	answer, err := at.transport.RoundTrip(r)
	if err != nil {
		return fmt.Errorf("ask %s for the time: %w", witness, err)
	}
	return answer.Body.Close()
}

// WrappedRoundTripper is the transport below, for callers that look for a type they know.
func (t transport) WrappedRoundTripper() http.RoundTripper { return t.base }

// Doer is what the AWS SDK sends requests with.
type Doer interface {
	Do(*http.Request) (*http.Response, error)
}

// Client compares the clock with the Date of every answer that a client of the AWS SDK gets.
func (c *Clock) Client(witness string, base Doer) Doer {
	return client{transport{clock: c, witness: witness, base: doer{base}}}
}

type client struct{ transport transport }

func (c client) Do(r *http.Request) (*http.Response, error) { return c.transport.RoundTrip(r) }

type doer struct{ base Doer }

func (d doer) RoundTrip(r *http.Request) (*http.Response, error) { return d.base.Do(r) }
