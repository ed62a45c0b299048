package sim

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
)

// Transport returns a round tripper that calls the server without a socket, for tests on a virtual clock.
// A dropped connection is an unexpected EOF, as over TCP.
func (s *Server) Transport() http.RoundTripper { return transport{s} }

type transport struct{ server *Server }

func (t transport) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	defer func() {
		if p := recover(); p == http.ErrAbortHandler {
			resp, err = nil, fmt.Errorf("read answer: %w", io.ErrUnexpectedEOF)
		} else if p != nil {
			panic(p)
		}
	}()
	if r.Body == nil {
		r.Body = http.NoBody
	}
	rec := &recorder{header: http.Header{}, status: http.StatusOK}
	t.server.ServeHTTP(rec, r)
	if err := r.Body.Close(); err != nil {
		return nil, fmt.Errorf("close request: %w", err)
	}
	return &http.Response{
		Status: http.StatusText(rec.status), StatusCode: rec.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: rec.header, Body: io.NopCloser(&rec.body), ContentLength: int64(rec.body.Len()), Request: r,
	}, nil
}

// recorder keeps an answer in memory.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(status int) { r.status = status }

func (r *recorder) Write(data []byte) (int, error) { return r.body.Write(data) }
