package review

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
)

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

// Right to do something with a resource or, if Path is set, with a path that is no resource's.
type Right struct{ Verb, Group, Resource, Subresource, Path string }

func (r Right) String() string {
	switch {
	case r.Path != "":
		return r.Verb + " " + r.Path
	case r.Subresource != "":
		return fmt.Sprintf("%s %s/%s.%s", r.Verb, r.Resource, r.Subresource, r.Group)
	}
	return fmt.Sprintf("%s %s.%s", r.Verb, r.Resource, r.Group)
}

// askInto writes the right into what the API server is asked.
func (r Right) askInto(s *authorizationv1.SubjectAccessReviewSpec) {
	if r.Path != "" {
		s.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: r.Path, Verb: r.Verb}
		return
	}
	s.ResourceAttributes = &authorizationv1.ResourceAttributes{Group: r.Group, Verb: r.Verb, Resource: r.Resource, Subresource: r.Subresource}
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

// Config of a Reviewer.
type Config struct {
	Core kubernetes.Interface
	Now  func() time.Time
	// Audience of tokens that are for this service alone; empty: only those for the API server count.
	Audience string
	// CacheFor is how long an answer of the API server counts, and StaleFor how much longer a good one counts
	// while the API server gives none: who could tell that the cluster is down must not be kept out by that.
	CacheFor, StaleFor time.Duration
}

// Reviewer asks the API server. It is safe for concurrent use.
type Reviewer struct {
	cfg               Config
	reviews, renewals *rate.Limiter
	addresses         *Limiter

	mu sync.Mutex
	// asked is when something was asked last.
	asked time.Time
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
func New(cfg Config) *Reviewer {
	return &Reviewer{cfg: cfg, reviews: rate.NewLimiter(reviewsPerSecond, reviewsBurst), renewals: rate.NewLimiter(renewalsPerSecond, renewalsBurst),
		addresses: NewLimiter(addressPerSecond, addressBurst),
		tokens:    map[[sha256.Size]byte]known{}, refused: map[[sha256.Size]byte]time.Time{}, allowed: map[rightKey]permission{}}
}

// now forgets all answers if the clock was set back by more than one counts: until when they do was told by
// the wrong clock.
func (r *Reviewer) now() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.cfg.Now()
	if r.asked.Sub(now) > r.cfg.CacheFor {
		clear(r.tokens)
		clear(r.refused)
		clear(r.allowed)
	}
	r.asked = now
	return now
}

// counts reports that an answer is no older than the API server need not be asked anew, and not of the
// future.
func (r *Reviewer) counts(until, now time.Time) bool {
	left := until.Sub(now)
	return left > 0 && left <= r.cfg.CacheFor
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
	refused := r.counts(r.refused[key], now)
	r.mu.Unlock()
	switch {
	case refused:
		return nil, ErrUnknown
	case ok && r.counts(k.until, now):
		return k.identity, nil
	case !r.mayAsk(from, ok, now):
		return nil, ErrBusy
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	review, err := r.review(ctx, token)
	switch {
	case err != nil && ok && r.isGood(k.until, now):
		return k.identity, nil
	case err != nil:
		return nil, fmt.Errorf("%w: review token: %w", ErrUnavailable, err)
	}
	return r.keep(key, review.Status, now)
}

// isGood reports that an answer counts while the API server gives no newer one.
func (r *Reviewer) isGood(until, now time.Time) bool { return now.Before(until.Add(r.cfg.StaleFor)) }

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
		remember(r.refused, key, now.Add(r.cfg.CacheFor), func(until time.Time) bool { return !r.counts(until, now) })
		return nil, ErrUnknown
	}
	k := known{&Identity{Name: u.Username, UID: u.UID, Groups: u.Groups, Extra: map[string][]string{}}, now.Add(r.cfg.CacheFor)}
	for name, values := range u.Extra {
		k.identity.Extra[name] = values
	}
	remember(r.tokens, key, k, func(k known) bool { return !r.isGood(k.until, now) })
	return k.identity, nil
}

// review asks whose token it is: first as one for the API server, then as one for this service alone. The
// API server cannot be asked for both at once: it would refuse those of authenticators that know no
// audiences.
func (r *Reviewer) review(ctx context.Context, token string) (*authenticationv1.TokenReview, error) {
	questions := [][]string{nil}
	if r.cfg.Audience != "" {
		questions = append(questions, []string{r.cfg.Audience})
	}
	for _, audiences := range questions {
		review, err := r.cfg.Core.AuthenticationV1().TokenReviews().Create(ctx,
			&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: audiences}}, metav1.CreateOptions{})
		// An answer without the audience is of an API server that did not look at it.
		if err != nil || review.Status.Authenticated && (audiences == nil || slices.Contains(review.Status.Audiences, r.cfg.Audience)) {
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
	if fresh || !ok || !r.counts(p.until, now) {
		granted, err := r.ask(ctx, who, right)
		switch {
		case err != nil && !fresh && ok && p.granted && r.isGood(p.until, now):
			return nil
		case err != nil:
			return fmt.Errorf("%w: review access: %w", ErrUnavailable, err)
		}
		p = permission{granted, now.Add(r.cfg.CacheFor)}
		r.mu.Lock()
		remember(r.allowed, key, p, func(p permission) bool { return !r.isGood(p.until, now) })
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
	asked := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: who.Name, UID: who.UID, Groups: who.Groups, Extra: extra}}
	right.askInto(&asked.Spec)
	review, err := r.cfg.Core.AuthorizationV1().SubjectAccessReviews().Create(ctx, asked, metav1.CreateOptions{})
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
