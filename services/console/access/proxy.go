package access

import (
	"context"
	"crypto/x509"
	"net/http"
	"slices"
	"strings"
	"time"

	"millwright/services/internal/review"
)

// Proxy is one that signs people in elsewhere, and says in headers who they are. It proves itself by a client
// certificate; without it the headers are nobody's.
type Proxy struct {
	// UserHeader and GroupsHeader are what it sets; groups are separated by commas, or come in several
	// headers.
	UserHeader, GroupsHeader string
	// Prefix comes before the names of users and groups, so that they are none of the cluster's own.
	Prefix string
	// Names that its certificate may be for, as common name or DNS name; empty: any.
	Names []string
	// Roots of which one has signed its certificate.
	Roots func() (*x509.CertPool, error)
}

const (
	// groupsMax and nameMax bound what a proxy says.
	groupsMax = 500
	nameMax   = 1000
	// systemPrefix begins names that belong to Kubernetes: nobody gets them from elsewhere.
	systemPrefix = "system:"
	// authenticated is the group of all whom the cluster knows.
	authenticated = "system:authenticated"
)

type proxied struct{}

// Proxied returns whom a proxy has vouched for in a request; nil: nobody.
func Proxied(r *http.Request) *review.Identity {
	who, _ := r.Context().Value(proxied{}).(*review.Identity)
	return who
}

// Handler notes whom the proxy vouches for, and takes the headers out of every request, so that nothing
// behind it can trust them by mistake. A nil Proxy does nothing.
func (p *Proxy) Handler(next http.Handler, now func() time.Time) http.Handler {
	if p == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		users, groups := r.Header.Values(p.UserHeader), r.Header.Values(p.GroupsHeader)
		r.Header.Del(p.UserHeader)
		r.Header.Del(p.GroupsHeader)
		if len(users) == 0 || !p.proven(r, now()) {
			next.ServeHTTP(w, r)
			return
		}
		who := p.identity(users, groups)
		if who == nil { // it is the proxy, and says nothing that can be trusted
			http.Error(w, "the proxy does not say who asks", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), proxied{}, who)))
	})
}

// proven reports that the connection is the proxy's.
func (p *Proxy) proven(r *http.Request, now time.Time) bool {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return false
	}
	roots, err := p.Roots()
	if err != nil {
		return false
	}
	shown := r.TLS.PeerCertificates
	between := x509.NewCertPool()
	for _, c := range shown[1:] {
		between.AddCert(c)
	}
	_, err = shown[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return err == nil && (len(p.Names) == 0 || slices.Contains(p.Names, shown[0].Subject.CommonName) ||
		slices.ContainsFunc(shown[0].DNSNames, func(name string) bool { return slices.Contains(p.Names, name) }))
}

// identity that the headers name; nil: they name nobody, or several.
func (p *Proxy) identity(users, groups []string) *review.Identity {
	name := strings.TrimSpace(users[0])
	if len(users) != 1 || name == "" || len(name) > nameMax || strings.HasPrefix(p.Prefix+name, systemPrefix) {
		return nil
	}
	who := &review.Identity{Name: p.Prefix + name, Groups: []string{authenticated}, Extra: map[string][]string{}}
	for _, line := range groups {
		for g := range strings.SplitSeq(line, ",") {
			if g = strings.TrimSpace(g); g != "" && len(g) <= nameMax && len(who.Groups) < groupsMax && !strings.HasPrefix(p.Prefix+g, systemPrefix) {
				who.Groups = append(who.Groups, p.Prefix+g)
			}
		}
	}
	slices.Sort(who.Groups)
	who.Groups = slices.Compact(who.Groups)
	return who
}
