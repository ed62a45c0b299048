package access

import (
	"net/http"

	"millwright/services/internal/review"
)

// CookieName of the token of a browser. The prefix makes browsers demand Secure, this host and all its
// paths.
const CookieName = "__Host-millwright"

// cookieMax is what browsers keep of one cookie, its name included.
const cookieMax = 4000

// TokenOf is the bearer token of a request, from its header or else its cookie; "" if there is none.
func TokenOf(r *http.Request) string {
	if token, ok := review.BearerOf(r); ok {
		return token
	}
	if c, err := r.Cookie(CookieName); err == nil {
		return c.Value
	}
	return ""
}

// FitsCookie reports that a browser can keep a token.
func FitsCookie(token string) bool {
	if token == "" || len(token) > cookieMax {
		return false
	}
	for _, c := range []byte(token) {
		if c <= ' ' || c >= 0x7f || c == '"' || c == ',' || c == ';' || c == '\\' {
			return false
		}
	}
	return true
}

// Cookie has a browser keep a token until it is closed, for the console alone; an empty one has it forget.
func Cookie(token string) *http.Cookie {
	c := &http.Cookie{Name: CookieName, Value: token, Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode}
	if token == "" {
		c.MaxAge = -1
	}
	return c
}
