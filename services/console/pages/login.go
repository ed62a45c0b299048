package pages

import (
	"errors"
	"net/http"
	"strings"

	"millwright/services/console/access"
	"millwright/services/internal/review"
)

// signIn is what the form shows.
type signIn struct{ Next, Problem string }

func (p *Pages) loginForm(w http.ResponseWriter, r *http.Request) {
	p.show(w, &request{Request: r}, http.StatusOK, "login", "Sign in", signIn{Next: local(r.URL.Query().Get("next"))})
}

// login has the browser keep a token that the API server knows.
func (p *Pages) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, FormMax)
	token, next := strings.TrimSpace(r.PostFormValue("token")), local(r.PostFormValue("next"))
	try := r.Clone(r.Context())
	try.Header = http.Header{"Authorization": {"Bearer " + token}}
	who, err := p.cfg.API.Identify(try)
	problem := ""
	switch {
	case errors.Is(err, review.ErrUnknown):
		problem = "The cluster does not know this token, or it has expired."
	case err != nil:
		problem = err.Error()
	case !access.FitsCookie(token):
		problem = "The token is too long for a browser to keep: use one of kubectl create token."
	}
	if problem != "" {
		p.show(w, &request{Request: r}, http.StatusUnauthorized, "login", "Sign in", signIn{Next: next, Problem: problem})
		return
	}
	p.cfg.Logger.Info().Str("by", who.Name).Msg("signed in")
	http.SetCookie(w, access.Cookie(token))
	http.Redirect(w, r, next, http.StatusSeeOther)
}

func logout(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, access.Cookie(""))
	w.Header().Set("Clear-Site-Data", `"cache"`)
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

// local is a path of this site, or / instead.
func local(path string) string {
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.ContainsAny(path, "\\\r\n\t") || len(path) > 1000 {
		return "/"
	}
	return path
}
