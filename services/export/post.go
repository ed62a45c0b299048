package export

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	// headersBytesMax bounds a file of headers or of a URL, answerBytesMax what is kept of an answer's text.
	headersBytesMax = 64 << 10
	answerBytesMax  = 300
	dialTimeout     = 5 * time.Second
)

// poster sends requests to one URL.
type poster struct {
	client *http.Client
	// headers is a file, "": there is none.
	headers string
	agent   string
}

// newPoster trusts the roots of the system and those of the file.
func newPoster(cfg Config, headers string) (*poster, error) {
	roots, err := roots(cfg.Settings.CAFile)
	if err != nil {
		return nil, err
	}
	p := &poster{headers: headers, agent: "millwright/" + cfg.Version, client: &http.Client{
		// Headers with credentials go nowhere else than they were meant for.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext, TLSHandshakeTimeout: dialTimeout,
			MaxIdleConnsPerHost: 1, MaxConnsPerHost: 2, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: headersBytesMax, ForceAttemptHTTP2: true,
			TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
		},
	}}
	_, err = p.readHeaders()
	return p, err
}

func roots(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--export-ca-file: %w", err)
	}
	if !pool.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("--export-ca-file: %s holds no certificate", file)
	}
	return pool, nil
}

// readHeaders reads the file anew, for Secrets change.
func (p *poster) readHeaders() (http.Header, error) {
	h := http.Header{}
	if p.headers == "" {
		return h, nil
	}
	data, err := readSmall(p.headers)
	if err != nil {
		return nil, fmt.Errorf("read headers: %w", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, headersBytesMax)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return nil, fmt.Errorf("headers in %s: line %d is not as in Name: value", p.headers, n) // which may be a secret
		}
		h.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	return h, lines.Err()
}

func readSmall(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, headersBytesMax+1))
	if err == nil && len(data) > headersBytesMax {
		err = fmt.Errorf("%s has more than %d bytes", path, headersBytesMax)
	}
	return data, err
}

// post sends a request and reads the answer. What it returns names no URL, which may be a secret.
func (p *poster) post(ctx context.Context, r *http.Request) error {
	h, err := p.readHeaders()
	if err != nil {
		return err
	}
	r.Header.Set("User-Agent", p.agent)
	for name, values := range h {
		r.Header[http.CanonicalHeaderKey(name)] = values
	}
	answer, err := p.client.Do(r.WithContext(ctx))
	if err != nil {
		var about *url.Error
		if errors.As(err, &about) {
			err = about.Err
		}
		return fmt.Errorf("no answer: %w", err)
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, answerBytesMax))
	if answer.StatusCode/100 == 2 {
		return nil
	}
	return &refusal{status: answer.Status, text: strings.ToValidUTF8(string(text), "?"), after: retryAfter(answer.Header.Get("Retry-After"))}
}

// retryAfter reads the header, in seconds or as a date.
func retryAfter(value string) time.Duration {
	if n, err := strconv.Atoi(value); err == nil && n > 0 {
		return time.Duration(min(n, 1<<20)) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}
