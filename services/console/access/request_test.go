package access

import (
	"net/http"
	"testing"
)

func TestTokenOf(t *testing.T) {
	for about, c := range map[string]struct {
		header, cookie, want string
	}{
		"nothing":             {},
		"a header":            {header: "Bearer a.b", want: "a.b"},
		"in lower case":       {header: "bearer a.b", want: "a.b"},
		"another scheme":      {header: "Basic YTpi"},
		"a cookie":            {cookie: "c.d", want: "c.d"},
		"the header wins":     {header: "Bearer a.b", cookie: "c.d", want: "a.b"},
		"no token after all":  {header: "Bearer "},
		"a scheme and a name": {header: "Bearer"},
	} {
		r, _ := http.NewRequest(http.MethodGet, "/", nil)
		if c.header != "" {
			r.Header.Set("Authorization", c.header)
		}
		if c.cookie != "" {
			r.AddCookie(Cookie(c.cookie))
		}
		if got := TokenOf(r); got != c.want {
			t.Errorf("%s: %q", about, got)
		}
	}
	if c := Cookie("x"); !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" {
		t.Errorf("%+v", c)
	}
	for token, fits := range map[string]bool{"a.b-c_d": true, "": false, "a b": false, "a;b": false, "é": false, string(make([]byte, 5000)): false} {
		if FitsCookie(token) != fits {
			t.Errorf("%q fits: %t", token, !fits)
		}
	}
}
