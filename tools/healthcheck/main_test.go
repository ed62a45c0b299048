package main

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
)

func TestCheck(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	plain, secure := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	defer plain.Close()
	defer secure.Close()
	gone := httptest.NewServer(handler)
	gone.Close()
	dir := t.TempDir()
	cases := map[string]struct {
		what    string
		healthy bool
	}{
		"a URL that answers 200":                      {plain.URL + "/readyz", true},
		"a URL with a certificate nobody vouches for": {secure.URL + "/readyz", true},
		"a URL that answers that it is not ready":     {plain.URL + "/other", false},
		"a server that is not there":                  {gone.URL + "/readyz", false},
		"a file that exists":                          {dir, true},
		"a file that does not exist":                  {filepath.Join(dir, "kubeconfig"), false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if err := check(c.what); (err == nil) != c.healthy {
				t.Errorf("check(%q) = %v, want healthy: %t", c.what, err, c.healthy)
			}
		})
	}
}
