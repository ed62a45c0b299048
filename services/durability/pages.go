package durability

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// pageMax bounds a page that is read.
const pageMax = 16 << 20

// EtcdPages are the metrics pages of the members at some endpoints: each serves one where its clients are.
// What is no URL of a host has none.
func EtcdPages(endpoints []string) []string {
	return pages(endpoints, func(u *url.URL) string {
		if u.Scheme != "http" && u.Scheme != "https" {
			return ""
		}
		return u.Scheme + "://" + u.Host + "/metrics"
	})
}

// NATSPages are the monitoring pages of the servers at some URLs, at their usual port; by https if the
// servers are spoken to by TLS.
func NATSPages(servers string, tls bool) []string {
	return pages(strings.Split(servers, ","), func(u *url.URL) string {
		scheme := "http"
		if tls || u.Scheme == "tls" || u.Scheme == "wss" {
			scheme = "https"
		}
		return scheme + "://" + net.JoinHostPort(u.Hostname(), "8222")
	})
}

func pages(addresses []string, page func(*url.URL) string) (out []string) {
	for _, a := range addresses {
		u, err := url.Parse(strings.TrimSpace(a))
		if err != nil || u.Host == "" {
			continue
		}
		if p := page(u); p != "" {
			out = append(out, p)
		}
	}
	return out
}

// get a page.
func get(ctx context.Context, client *http.Client, page string) (string, error) {
	if _, err := url.ParseRequestURI(page); err != nil {
		return "", fmt.Errorf("get %q: %w", page, err)
	}
	if client == nil {
		client = http.DefaultClient
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, pageMax))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("get %s: %s", page, resp.Status)
	}
	return string(text), err
}
