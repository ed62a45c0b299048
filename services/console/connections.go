package console

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"

	"millwright/services/console/access"
	"millwright/services/console/api"
	"millwright/services/console/pages"
)

// connections are what a listener has accepted, oldest first, at most so many. For a new one that is too much
// the oldest of those on which nobody has proven who they are makes room; if there is none, it is closed.
type connections struct {
	net.Listener
	most int

	mu   sync.Mutex
	open []*connection
}

// connection that a request came on.
type connection struct {
	net.Conn
	all *connections
	// forms has a place for each form to sign in that is being sent.
	forms chan struct{}
	// known: somebody has proven who they are. Of connections.mu.
	known bool
}

// Accept waits for a connection.
func (l *connections) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &connection{Conn: conn, all: l, forms: make(chan struct{}, formsMax)}
	if oldest := l.add(c); oldest != nil {
		_ = oldest.Close()
	}
	return c, nil
}

// add a connection, and return the one that is to be closed for it; nil: none.
func (l *connections) add(c *connection) *connection {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = append(l.open, c)
	if len(l.open) <= l.most {
		return nil
	}
	i := slices.IndexFunc(l.open, func(o *connection) bool { return !o.known })
	oldest := l.open[i]
	l.open = slices.Delete(l.open, i, i+1)
	return oldest
}

// Close the connection.
func (c *connection) Close() error {
	c.all.mu.Lock()
	if i := slices.Index(c.all.open, c); i >= 0 {
		c.all.open = slices.Delete(c.all.open, i, i+1)
	}
	c.all.mu.Unlock()
	return c.Conn.Close()
}

// prove notes that somebody on the connection has proven who they are.
func (c *connection) prove() {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	c.known = true
}

type connectionKey struct{}

// withConnection is the context of the requests of a connection of TLS.
func withConnection(ctx context.Context, conn net.Conn) context.Context {
	if secured, ok := conn.(*tls.Conn); ok {
		if c, ok := secured.NetConn().(*connection); ok {
			return context.WithValue(ctx, connectionKey{}, c)
		}
	}
	return ctx
}

// placed answers a request within the bound of those that are answered at a time. Strangers hold no place
// while they send a form or read an answer, for they can do that as slowly as they like: the form is read
// before, and what is answered to them is short.
func (c *Console) placed(next http.Handler, w http.ResponseWriter, r *http.Request) {
	conn, _ := r.Context().Value(connectionKey{}).(*connection)
	places := c.inFlight
	if r.URL.Path == "/login" {
		places = c.logins
		if r.Method == http.MethodPost && !readForm(w, r, conn) {
			return
		}
	}
	select {
	case places <- struct{}{}:
	default:
		tooMany(w)
		return
	}
	p := &place{ResponseWriter: w, leave: sync.OnceFunc(func() { <-places })}
	defer p.leave()
	next.ServeHTTP(p, r.WithContext(access.Knowing(proving(r), func() { p.known = true })))
}

// proving is the context of a request, which notes of its connection that it is clear who sends it.
func proving(r *http.Request) context.Context {
	conn, ok := r.Context().Value(connectionKey{}).(*connection)
	if !ok {
		return r.Context()
	}
	return access.Knowing(r.Context(), conn.prove)
}

func tooMany(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "5")
	http.Error(w, "too many requests at once", http.StatusServiceUnavailable)
}

// readForm reads the form of a request whole, however slowly it is sent.
func readForm(w http.ResponseWriter, r *http.Request, conn *connection) bool {
	if conn != nil {
		select {
		case conn.forms <- struct{}{}:
			defer func() { <-conn.forms }()
		default:
			tooMany(w)
			return false
		}
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, pages.FormMax+1))
	if err != nil {
		http.Error(w, "the form was not sent whole", http.StatusBadRequest)
		return false
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return true
}

// place of a request among those that are answered.
type place struct {
	http.ResponseWriter
	leave func()
	// known: it is clear who sends it. Of the request's goroutine.
	known bool
}

// WriteHeader begins the answer.
func (p *place) WriteHeader(status int) {
	if !p.known {
		p.leave()
	}
	p.ResponseWriter.WriteHeader(status)
}

func (p *place) Write(b []byte) (int, error) {
	if !p.known {
		p.leave()
	}
	return p.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController find what it needs.
func (p *place) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// following reports that a request follows the log: readers of it have a bound of their own.
func following(r *http.Request) bool { return r.URL.Path == api.Prefix+api.TailPath }
