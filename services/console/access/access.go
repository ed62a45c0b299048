package access

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"millwright/services/console/trust"
)

// Group of the resources whose rights are asked for. They are no objects: only rights name them.
const Group = "millwright.sh"

// CacheFor is how long an answer of the API server counts.
const CacheFor = 5 * time.Second

const (
	// entriesMax bounds what is remembered of each kind.
	entriesMax = 2048
	// reviewsPerSecond and reviewsBurst bound what the API server is asked for tokens that are not known,
	// and addressPerSecond and addressBurst how much of it one address gets. Tokens that were good when
	// they were asked about last have a bound of their own.
	reviewsPerSecond  = 20
	reviewsBurst      = 40
	addressPerSecond  = 2
	addressBurst      = 20
	renewalsPerSecond = 100
	renewalsBurst     = 200
	reviewTimeout     = 5 * time.Second
	// TokenMax is the length of the longest token that is looked at.
	TokenMax = 8 << 10
)

var (
	// ErrUnknown: there is no token, or it is nobody's.
	ErrUnknown = errors.New("who asks is not known")
	// ErrForbidden: they may not do it.
	ErrForbidden = errors.New("forbidden")
	// ErrBusy: too many unknown tokens are being asked about.
	ErrBusy = errors.New("too many sign in at once")
	// ErrUnavailable: the API server does not say.
	ErrUnavailable = errors.New("the API server does not answer")
)

// Right to do something.
type Right struct{ Verb, Resource, Subresource string }

// Rights that the console asks for.
var (
	Read    = Right{Verb: "get", Resource: "decisions"}
	Plan    = Right{Verb: "create", Resource: "plans"}
	Approve = Right{Verb: "create", Resource: "commands", Subresource: "approve"}
	Control = Right{Verb: "update", Resource: "control"}
)

func (r Right) String() string {
	if r.Subresource != "" {
		return fmt.Sprintf("%s %s/%s.%s", r.Verb, r.Resource, r.Subresource, Group)
	}
	return fmt.Sprintf("%s %s.%s", r.Verb, r.Resource, Group)
}

// Identity of who asks.
type Identity struct {
	Name   string
	UID    string
	Groups []string
	Extra  map[string][]string
}

// key tells identities apart that may have different rights.
func (i *Identity) key() [sha256.Size]byte {
	var b strings.Builder
	fmt.Fprintf(&b, "%q %q %q", i.Name, i.UID, i.Groups)
	for _, k := range slices.Sorted(maps.Keys(i.Extra)) {
		fmt.Fprintf(&b, " %q %q", k, i.Extra[k])
	}
	return sha256.Sum256([]byte(b.String()))
}

// Reviewer asks the API server. It is safe for concurrent use.
type Reviewer struct {
	core              kubernetes.Interface
	now               func() time.Time
	reviews, renewals *rate.Limiter
	addresses         *Limiter

	mu sync.Mutex
	// tokens that are somebody's, and refused ones, which thus never push those out.
	tokens  map[[sha256.Size]byte]known
	refused map[[sha256.Size]byte]time.Time
	allowed map[rightKey]permission
}

// known is whose a token was; from until on the API server is asked again.
type known struct {
	identity *Identity
	until    time.Time
}

type rightKey struct {
	who   [sha256.Size]byte
	right Right
}

type permission struct {
	granted bool
	until   time.Time
}

// New returns a Reviewer.
func New(core kubernetes.Interface, now func() time.Time) *Reviewer {
	return &Reviewer{core: core, now: now, reviews: rate.NewLimiter(reviewsPerSecond, reviewsBurst), renewals: rate.NewLimiter(renewalsPerSecond, renewalsBurst),
		addresses: NewLimiter(addressPerSecond, addressBurst),
		tokens:    map[[sha256.Size]byte]known{}, refused: map[[sha256.Size]byte]time.Time{}, allowed: map[rightKey]permission{}}
}

// Identify returns who a token that comes from an address belongs to; ErrUnknown, ErrBusy or
// ErrUnavailable.
func (r *Reviewer) Identify(ctx context.Context, from, token string) (*Identity, error) {
	if token == "" || len(token) > TokenMax {
		return nil, ErrUnknown
	}
	key := sha256.Sum256([]byte(token))
	now := r.now()
	r.mu.Lock()
	k, ok := r.tokens[key]
	refused := now.Before(r.refused[key])
	r.mu.Unlock()
	switch {
	case refused:
		return nil, ErrUnknown
	case ok && now.Before(k.until):
		return k.identity, nil
	case !r.mayAsk(from, ok, now):
		return nil, ErrBusy
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	review, err := r.review(ctx, token)
	if err != nil {
		return nil, fmt.Errorf("%w: review token: %w", ErrUnavailable, err)
	}
	return r.keep(key, review.Status, now)
}

// mayAsk bounds the reviews: those of tokens that were good before are not held up by strangers, nor those
// of strangers by one of them. Everybody who comes by a port-forward, which the API server has let them
// make, comes from the loopback address, each millctl with a new token: that address has no bound of its
// own.
func (r *Reviewer) mayAsk(from string, renewal bool, now time.Time) bool {
	if renewal {
		return r.renewals.AllowN(now, 1)
	}
	return (isLoopback(from) || r.addresses.Allow(from, now)) && r.reviews.AllowN(now, 1)
}

func isLoopback(address string) bool {
	a, err := netip.ParseAddr(strings.Trim(address, "[]"))
	return err == nil && a.IsLoopback()
}

// keep an answer about a token.
func (r *Reviewer) keep(key [sha256.Size]byte, status authenticationv1.TokenReviewStatus, now time.Time) (*Identity, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	u := status.User
	if !status.Authenticated || u.Username == "" {
		delete(r.tokens, key)
		remember(r.refused, key, now.Add(CacheFor), func(until time.Time) bool { return !now.Before(until) })
		return nil, ErrUnknown
	}
	k := known{&Identity{Name: u.Username, UID: u.UID, Groups: u.Groups, Extra: map[string][]string{}}, now.Add(CacheFor)}
	for name, values := range u.Extra {
		k.identity.Extra[name] = values
	}
	remember(r.tokens, key, k, func(k known) bool { return !now.Before(k.until) })
	return k.identity, nil
}

// review asks whose token it is: first as one for the API server, then as one for the console alone. The
// API server cannot be asked for both at once: it would refuse those of authenticators that know no
// audiences.
func (r *Reviewer) review(ctx context.Context, token string) (*authenticationv1.TokenReview, error) {
	for _, audiences := range [][]string{nil, {trust.Audience}} {
		review, err := r.core.AuthenticationV1().TokenReviews().Create(ctx,
			&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: audiences}}, metav1.CreateOptions{})
		// An answer without the audience is of an API server that did not look at it.
		if err != nil || review.Status.Authenticated && (audiences == nil || slices.Contains(review.Status.Audiences, trust.Audience)) {
			return review, err
		}
	}
	return &authenticationv1.TokenReview{}, nil
}

// Check returns nil if they may; ErrForbidden or ErrUnavailable. For an act, fresh asks the API server
// anew.
func (r *Reviewer) Check(ctx context.Context, who *Identity, right Right, fresh bool) error {
	key := rightKey{who.key(), right}
	now := r.now()
	r.mu.Lock()
	p, ok := r.allowed[key]
	r.mu.Unlock()
	if fresh || !ok || !now.Before(p.until) {
		granted, err := r.ask(ctx, who, right)
		if err != nil {
			return fmt.Errorf("%w: review access: %w", ErrUnavailable, err)
		}
		p = permission{granted, now.Add(CacheFor)}
		r.mu.Lock()
		remember(r.allowed, key, p, func(p permission) bool { return !now.Before(p.until) })
		r.mu.Unlock()
	}
	if !p.granted {
		return fmt.Errorf("%w: %s may not %s", ErrForbidden, who.Name, right)
	}
	return nil
}

func (r *Reviewer) ask(ctx context.Context, who *Identity, right Right) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	extra := map[string]authorizationv1.ExtraValue{}
	for name, values := range who.Extra {
		extra[name] = values
	}
	review, err := r.core.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{User: who.Name, UID: who.UID, Groups: who.Groups, Extra: extra,
			ResourceAttributes: &authorizationv1.ResourceAttributes{Group: Group, Verb: right.Verb, Resource: right.Resource, Subresource: right.Subresource}},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return review.Status.Allowed && !review.Status.Denied, nil
}

// remember keeps an answer. If there are too many, those that count no more are forgotten, and if that is
// not enough, all.
func remember[K comparable, V any](m map[K]V, key K, value V, over func(V) bool) {
	if len(m) >= entriesMax {
		for k, v := range m {
			if over(v) {
				delete(m, k)
			}
		}
		if len(m) >= entriesMax {
			clear(m)
		}
	}
	m[key] = value
}
