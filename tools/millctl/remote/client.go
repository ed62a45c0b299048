package remote

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"millwright/services/console/api"
)

const (
	// askTimeout bounds an answer, answerMax its length.
	askTimeout = 60 * time.Second
	answerMax  = 64 << 20
	// triesMax is how often a console that is busy or is starting is asked, waitMax the longest pause it may
	// want between.
	triesMax = 4
	waitMax  = 10 * time.Second
)

// Client asks one console.
type Client struct {
	base      string
	token     string
	transport *http.Transport
	closer    interface{ Close() }
	// asked is the user on whose behalf a ServiceAccount's token is used; "" if the token is the user's own.
	asked string
	// Cluster that the console must be of; "": any.
	Cluster string
}

// Refused is an answer of the console that is not a success.
type Refused struct {
	Status  int
	Message string
}

func (r *Refused) Error() string {
	switch r.Status {
	case http.StatusUnauthorized:
		return "the console does not know your token: the API server says it is nobody's"
	case http.StatusForbidden:
		return r.Message + "; ClusterRoles millwright-viewer (read) and millwright-operator (orders) have the rights: docs/console.md"
	}
	return r.Message
}

// Denied reports that an error means missing rights.
func Denied(err error) bool {
	var r *Refused
	return errors.As(err, &r) && (r.Status == http.StatusUnauthorized || r.Status == http.StatusForbidden)
}

// busy reports that the console is starting, or has too much to do.
func busy(err error) bool {
	var r *Refused
	return errors.As(err, &r) && (r.Status == http.StatusServiceUnavailable || r.Status == http.StatusTooManyRequests)
}

// Close ends the connection.
func (c *Client) Close() {
	c.transport.CloseIdleConnections()
	if c.closer != nil {
		c.closer.Close()
	}
}

// Get asks for a path of the API and decodes the answer. It asks again, some times, if the console is busy.
func (c *Client) Get(ctx context.Context, path string, query url.Values, into any) error {
	for try := 1; ; try++ {
		wait, err := c.do(ctx, http.MethodGet, path, query, nil, into)
		if wait == 0 || try == triesMax {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(min(wait, waitMax)):
		}
	}
}

// Order sends an order. It is not repeated: whether one that got no answer was recorded, the log says. The
// reason names the user if the token is not theirs.
func (c *Client) Order(ctx context.Context, path string, o api.Order) (*api.Recorded, error) {
	if c.asked != "" && o.Reason != "" {
		o.Reason = fmt.Sprintf("%s (for %s)", o.Reason, c.asked)
	}
	body, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("encode the order: %w", err)
	}
	r := &api.Recorded{}
	_, err = c.do(ctx, http.MethodPost, path, nil, body, r)
	var refused *Refused
	if err != nil && !errors.As(err, &refused) {
		return nil, fmt.Errorf("%w; look with millctl log --since 5m whether it was recorded", err)
	}
	return r, err
}

// do sends a request. wait is how long to wait before another try; 0: there is nothing to try again.
func (c *Client) do(ctx context.Context, method, path string, query url.Values, body []byte, into any) (wait time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	response, err := c.send(ctx, method, path, query, body)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, answerMax))
	if err != nil {
		return 0, fmt.Errorf("%w: read its answer: %w", ErrUnreachable, err)
	}
	if response.StatusCode == http.StatusOK {
		if err := json.Unmarshal(text, into); err != nil {
			return 0, fmt.Errorf("decode the console's answer to %s: %w", path, err)
		}
		return 0, nil
	}
	err = refusal(response.StatusCode, text)
	if busy(err) {
		seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
		wait = max(time.Second, time.Duration(seconds)*time.Second)
	}
	return wait, err
}

func refusal(status int, text []byte) error {
	var p api.Problem
	if json.Unmarshal(text, &p) != nil || p.Message == "" {
		p.Message = fmt.Sprintf("the console answers %d %s", status, http.StatusText(status))
	}
	return &Refused{Status: status, Message: p.Message}
}

func (c *Client) send(ctx context.Context, method, path string, query url.Values, body []byte) (*http.Response, error) {
	target := c.base + api.Prefix + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("ask the console for %s: %w", path, err)
	}
	c.sign(request)
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	// A redirect would take the token elsewhere; the console sends none.
	response, err := c.transport.RoundTrip(request)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return response, nil
}

// sign says who asks, and of which cluster.
func (c *Client) sign(request *http.Request) {
	request.Header.Set("Authorization", "Bearer "+c.token)
	if c.Cluster != "" {
		request.Header.Set(api.ClusterHeader, c.Cluster)
	}
}

// ErrMissed: the console does not send all records that follow the last one that it has sent.
var ErrMissed = errors.New("records were missed")

// Tail calls fn with each new record until ctx ends. It comes back after a stream that ended, from where that
// one was; after triesMax streams in a row without a record it gives up. It returns ErrMissed if the records
// after the last one that fn was called with have to be read by page.
func (c *Client) Tail(ctx context.Context, query url.Values, after uint64, fn func(data []byte) error) error {
	for failures := 0; ; {
		last, err := c.follow(ctx, query, after, fn)
		if ctx.Err() != nil {
			return nil
		}
		var refused *Refused
		if errors.As(err, &refused) && !busy(err) || errors.Is(err, errCalled) || errors.Is(err, ErrMissed) {
			return err
		}
		if failures++; last > after || err == nil {
			failures = 0
		}
		if failures == triesMax {
			return err
		}
		after = max(after, last)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second << failures):
		}
	}
}

// errCalled: what is called with a record failed.
var errCalled = errors.New("print record")

// follow reads one stream; last is the last record of it.
func (c *Client) follow(ctx context.Context, query url.Values, after uint64, fn func(data []byte) error) (last uint64, err error) {
	target := c.base + api.Prefix + "/decisions/tail"
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return 0, fmt.Errorf("follow the log: %w", err)
	}
	c.sign(request)
	if after > 0 {
		request.Header.Set("Last-Event-ID", strconv.FormatUint(after, 10))
	}
	response, err := c.transport.RoundTrip(request)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, failureMax))
		return 0, refusal(response.StatusCode, text)
	}
	return events(response.Body, fn)
}

// events reads server-sent events as the console writes them: the data of a record is one line.
func events(body io.Reader, fn func(data []byte) error) (last uint64, err error) {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	var id uint64
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "event":
			if value == "lost" {
				return last, ErrMissed
			}
		case "id":
			id, _ = strconv.ParseUint(value, 10, 64)
		case "data":
			if id == 0 {
				continue // it says why the stream ends
			}
			if err := fn([]byte(value)); err != nil {
				return last, fmt.Errorf("%w: %w", errCalled, err)
			}
			last, id = id, 0
		}
	}
	if err := lines.Err(); err != nil {
		return last, fmt.Errorf("%w: read its stream: %w", ErrUnreachable, err)
	}
	return last, nil
}
