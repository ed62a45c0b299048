package remote

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"millwright/services/console/index"
)

// Who follows the log goes on with another token when one is no longer good, once; who may not read it any
// more, or never might, is told.
func TestFollowingOutlivesAToken(t *testing.T) {
	for name, c := range map[string]struct {
		// good are the tokens that the console takes, one after the other: each for one stream.
		good   string
		tokens int
		want   []uint64
		denied bool
	}{
		"the next one is good": {"12", 2, []uint64{1, 2}, false},
		"the next one is not":  {"1", 2, []uint64{1}, true},
		"none ever was":        {"", 1, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var streams atomic.Int64
			console := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				n := int(streams.Load())
				if n >= len(c.good) || r.Header.Get("Authorization") != "Bearer "+c.good[n:n+1] {
					w.WriteHeader(http.StatusUnauthorized)
					return
				}
				if !strings.HasSuffix(r.URL.Path, "/tail") {
					_, _ = fmt.Fprintf(w, `{"items":[],"head":%d}`, n)
					return
				}
				_, _ = fmt.Fprintf(w, "id: %d\nevent: record\ndata: {\"seq\":%[1]d}\n\n", n+1)
				streams.Add(1)
			}))
			defer console.Close()
			tokens := 0
			var got []uint64
			records := Records{Query: url.Values{}, Follow: true, Print: func(r *index.Row) error {
				if got = append(got, r.Seq); !c.denied && len(got) == len(c.want) {
					cancel()
				}
				return nil
			}}
			err := records.Read(ctx, func(_ context.Context, fn func(*Client) error) error {
				tokens++
				client := &Client{base: console.URL, token: fmt.Sprint(tokens), transport: &http.Transport{}}
				defer client.Close()
				return fn(client)
			})
			if d := cmp.Diff(c.want, got); d != "" || Denied(err) != c.denied || !c.denied && err != nil || tokens != c.tokens {
				t.Error(d, err, tokens)
			}
		})
	}
}
