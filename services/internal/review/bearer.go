package review

import (
	"net/http"
	"strings"
)

// BearerOf is the bearer token in the header of a request, which may be empty; false: the header has none.
func BearerOf(r *http.Request) (string, bool) {
	kind, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(kind, "Bearer") {
		return "", false
	}
	return strings.TrimSpace(token), true
}
