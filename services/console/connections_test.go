package console

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"millwright/services/internal/pki"
)

// reached is a console that listens, and a client of it.
func reached(t *testing.T) (address string, people *http.Client) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "console")
	c, _ := started(t, dir, Settings{Address: "127.0.0.1:0"})
	address = c.listens(t)
	bundle, err := os.ReadFile(filepath.Join(dir, pki.KeyCA))
	if err != nil {
		t.Fatal(err)
	}
	people = client(t, bundle)
	people.Timeout = time.Minute
	people.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return address, people
}

// stranger is a connection of somebody without a token.
func stranger(t *testing.T, address, protocol string) *tls.Conn {
	t.Helper()
	conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}}) //nolint:gosec // strangers trust anybody
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// begins sends the beginning of a request, and returns the first line that comes back.
func begins(t *testing.T, conn *tls.Conn, request string) string {
	t.Helper()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// asks is the status of what is asked with a token.
func asks(t *testing.T, people *http.Client, address string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+"/api/v1/commands", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer good")
	resp, err := people.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// However many strangers send the form to sign in, and however slowly, others sign in, and who has signed in
// gets answers.
func TestWhoSignsInKeepsNobodyOut(t *testing.T) {
	address, people := reached(t)
	for range inFlightMax {
		line := begins(t, stranger(t, address, "http/1.1"), "POST /login HTTP/1.1\r\nHost: console\r\nExpect: 100-continue\r\n"+
			"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 9\r\n\r\n")
		if line != "HTTP/1.1 100 Continue" {
			t.Fatalf("while others send the form to sign in: %s", line)
		}
	}
	if status := asks(t, people, address); status != http.StatusOK {
		t.Errorf("who has signed in gets %d", status)
	}
	resp, err := people.PostForm("https://"+address+"/login", url.Values{"token": {"good"}})
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body.Close(); resp.StatusCode != http.StatusSeeOther {
		t.Errorf("who signs in gets %s", resp.Status)
	}
}

// A stranger who does not read what is answered keeps nobody from being answered.
func TestWhoDoesNotReadKeepsNobodyOut(t *testing.T) {
	address, people := reached(t)
	conn := stranger(t, address, "h2")
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	framer := http2.NewFramer(conn, conn)
	if err := framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}); err != nil {
		t.Fatal(err)
	}
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for i := range inFlightMax {
		block.Reset()
		for _, f := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "console"}, {":path", "/api/v1/openapi.json"}} {
			if err := encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
				t.Fatal(err)
			}
		}
		id := uint32(2*i + 1)
		if err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true}); err != nil {
			t.Fatal(err)
		}
	}
	for answered := 0; answered < inFlightMax; {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := frame.(*http2.HeadersFrame); ok {
			answered++
		}
	}
	if status := asks(t, people, address); status != http.StatusOK {
		t.Errorf("while %d answers are not read, others get %d", inFlightMax, status)
	}
}

// Strangers who hold every connection keep nobody from coming, nor cut anybody off who has signed in.
func TestStrangersMakeRoom(t *testing.T) {
	address, people := reached(t)
	if status := asks(t, people, address); status != http.StatusOK {
		t.Fatal(status)
	}
	for range connectionsMax + 10 {
		conn := stranger(t, address, "http/1.1")
		if line := begins(t, conn, "GET /login HTTP/1.1\r\nHost: console\r\n\r\n"); line != "HTTP/1.1 200 OK" {
			t.Fatal(line)
		}
	}
	again := false
	trace := &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) { again = got.Reused }}
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodPost, "https://"+address+"/login", strings.NewReader("token=good"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := people.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body.Close(); resp.StatusCode != http.StatusSeeOther || !again {
		t.Errorf("who had come before gets %s, on the same connection: %t", resp.Status, again)
	}
	people.CloseIdleConnections()
	if status := asks(t, people, address); status != http.StatusOK {
		t.Errorf("who comes now gets %d", status)
	}
}

// Only readers of the log have a bound of their own.
func TestOnlyTailsEscapeTheBound(t *testing.T) {
	c := &Console{cfg: Config{Logger: zerolog.Nop()}, inFlight: make(chan struct{}), logins: make(chan struct{})}
	server := httptest.NewServer(c.guarded(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	defer server.Close()
	for path, want := range map[string]int{
		"/api/v1/decisions/tail":               http.StatusOK,
		"/api/v1/why/nodeclaim/decisions/tail": http.StatusServiceUnavailable,
		"/object/pod/decisions/tail":           http.StatusServiceUnavailable,
		"/decisions/tail":                      http.StatusServiceUnavailable,
	} {
		resp, err := http.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Body.Close(); resp.StatusCode != want {
			t.Errorf("%s: %s, want %d", path, resp.Status, want)
		}
	}
}
