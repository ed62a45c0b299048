package review

import (
	"errors"
	"fmt"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"
)

// approve is a right that ann may have.
var approve = Right{Verb: "create", Group: "millwright.sh", Resource: "commands", Subresource: "approve"}

// cacheFor is how long an answer counts in these tests.
const cacheFor = 5 * time.Second

// server is an API server that knows ann's token, and counts what it is asked.
type server struct {
	tokens, rights int
	may, withdrawn bool
	err            error
	now            time.Time
	staleFor       time.Duration
}

func (s *server) reviewer() *Reviewer {
	core := &fake.Clientset{}
	core.AddReactor("create", "tokenreviews", func(a kubetesting.Action) (bool, runtime.Object, error) {
		s.tokens++
		o := a.(kubetesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
		if o.Spec.Audiences != nil {
			s.tokens-- // the second question about one token
		}
		switch {
		case o.Spec.Token == "for us" && len(o.Spec.Audiences) == 1:
			o.Status.Authenticated, o.Status.Audiences = true, o.Spec.Audiences
			o.Status.User = authenticationv1.UserInfo{Username: "ben"}
		case o.Spec.Token == "for another" && len(o.Spec.Audiences) == 1: // and the API server does not look at audiences
			o.Status.Authenticated = true
			o.Status.User = authenticationv1.UserInfo{Username: "eve"}
		case o.Spec.Token == "anns" && !s.withdrawn:
			o.Status.Authenticated = true
			o.Status.User = authenticationv1.UserInfo{Username: "ann", Groups: []string{"g"}, Extra: map[string]authenticationv1.ExtraValue{"k": {"v"}}}
		}
		return true, o, s.err
	})
	core.AddReactor("create", "subjectaccessreviews", func(a kubetesting.Action) (bool, runtime.Object, error) {
		s.rights++
		o := a.(kubetesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
		want := authorizationv1.ResourceAttributes{Group: "millwright.sh", Verb: "create", Resource: "commands", Subresource: "approve"}
		o.Status.Allowed = s.may && o.Spec.User == "ann" && o.Spec.Groups[0] == "g" && o.Spec.Extra["k"][0] == "v" && *o.Spec.ResourceAttributes == want
		return true, o, s.err
	})
	return New(Config{Core: core, Now: func() time.Time { return s.now }, Audience: "for us", CacheFor: cacheFor, StaleFor: s.staleFor})
}

func TestWhoAsks(t *testing.T) {
	s := &server{now: time.Unix(1_000_000, 0)}
	r := s.reviewer()
	for range 3 {
		who, err := r.Identify(t.Context(), "10.0.0.1", "anns")
		if err != nil || who.Name != "ann" {
			t.Fatal(who, err)
		}
		if _, err := r.Identify(t.Context(), "10.0.0.1", "stolen"); !errors.Is(err, ErrUnknown) {
			t.Fatal(err)
		}
	}
	if s.tokens != 2 {
		t.Errorf("%d reviews of two tokens", s.tokens)
	}
	s.now = s.now.Add(cacheFor)
	s.err = errors.New("away")
	if _, err := r.Identify(t.Context(), "10.0.0.1", "anns"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("an old answer counts while the API server is away: %v", err)
	}
	for _, token := range []string{"", string(make([]byte, TokenMax+1))} {
		if _, err := r.Identify(t.Context(), "10.0.0.1", token); !errors.Is(err, ErrUnknown) {
			t.Errorf("a token of %d bytes: %v", len(token), err)
		}
	}
}

// What was answered while the clock was ahead does not count when it has been put right, neither then nor
// when that time comes.
func TestAnswersOfTheFutureDoNotCount(t *testing.T) {
	for _, later := range []time.Duration{0, 29 * 24 * time.Hour, 30*24*time.Hour + time.Second} {
		right := time.Unix(1_000_000, 0)
		s := &server{now: right.Add(30 * 24 * time.Hour), may: true}
		r := s.reviewer()
		ann, err := r.Identify(t.Context(), "10.0.0.1", "anns")
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Check(t.Context(), ann, approve, false); err != nil {
			t.Fatal(err)
		}
		s.withdrawn, s.may, s.now = true, false, right
		if _, err := r.Identify(t.Context(), "10.0.0.1", "another"); !errors.Is(err, ErrUnknown) {
			t.Fatal(err)
		}
		s.now = right.Add(later)
		if _, err := r.Identify(t.Context(), "10.0.0.1", "anns"); !errors.Is(err, ErrUnknown) {
			t.Errorf("%s later the token that was withdrawn: %v", later, err)
		}
		if err := r.Check(t.Context(), ann, approve, false); !errors.Is(err, ErrForbidden) {
			t.Errorf("%s later what they may not any more: %v", later, err)
		}
	}
}

// A token for us alone is good here; one for somebody else is not.
func TestTokensForTheConsoleAlone(t *testing.T) {
	s := &server{now: time.Unix(1_000_000, 0)}
	r := s.reviewer()
	if who, err := r.Identify(t.Context(), "10.0.0.1", "for us"); err != nil || who.Name != "ben" {
		t.Error(who, err)
	}
	if who, err := r.Identify(t.Context(), "10.0.0.1", "for another"); !errors.Is(err, ErrUnknown) {
		t.Error(who, err)
	}
}

func TestWhatTheyMay(t *testing.T) {
	s := &server{now: time.Unix(1_000_000, 0), may: true}
	r := s.reviewer()
	ann, err := r.Identify(t.Context(), "10.0.0.1", "anns")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Check(t.Context(), ann, approve, false); err != nil {
		t.Error(err)
	}
	if err := r.Check(t.Context(), ann, Right{Verb: "update", Group: "millwright.sh", Resource: "control"}, false); !errors.Is(err, ErrForbidden) {
		t.Error(err)
	}
	bob := &Identity{Name: "bob", Groups: ann.Groups, Extra: ann.Extra}
	if err := r.Check(t.Context(), bob, approve, false); !errors.Is(err, ErrForbidden) {
		t.Error(err)
	}
	s.may = false
	if err := r.Check(t.Context(), ann, approve, false); err != nil {
		t.Errorf("an answer that is not old: %v", err)
	}
	if err := r.Check(t.Context(), ann, approve, true); !errors.Is(err, ErrForbidden) {
		t.Errorf("for an act it is asked again: %v", err)
	}
	s.err, s.now = errors.New("away"), s.now.Add(cacheFor)
	if err := r.Check(t.Context(), ann, approve, false); !errors.Is(err, ErrUnavailable) {
		t.Errorf("while the API server is away: %v", err)
	}
}

// Those who try tokens, from however many addresses, have the API server asked a bounded number of times,
// and fill no memory; one address gets a part of it.
func TestTryingTokens(t *testing.T) {
	for about, c := range map[string]struct {
		addresses, perSecond, burst int
	}{"from one address": {1, addressPerSecond, addressBurst}, "from everywhere": {1000, reviewsPerSecond, reviewsBurst}} {
		s := &server{now: time.Unix(1_000_000, 0)}
		r := s.reviewer()
		busy, seconds := 0, 0
		for i := range 3 * entriesMax {
			if _, err := r.Identify(t.Context(), fmt.Sprint(i%c.addresses), fmt.Sprint(i)); errors.Is(err, ErrBusy) {
				busy++
			}
			if i%100 == 99 {
				s.now = s.now.Add(time.Second)
				seconds++
			}
		}
		if most := seconds*c.perSecond + c.burst; s.tokens > most || s.tokens < most/2 || busy == 0 || len(r.tokens) > 0 || len(r.refused) > entriesMax {
			t.Errorf("%s: %d reviews of at most %d, %d refused, %d and %d remembered", about, s.tokens, most, busy, len(r.tokens), len(r.refused))
		}
	}
	l := NewLimiter(1, 2)
	for i := range 3 * entriesMax {
		l.Allow(fmt.Sprint(i), time.Unix(1_000_000, 0))
	}
	if len(l.each) > entriesMax {
		t.Errorf("%d limits remembered", len(l.each))
	}
}

// Strangers of one address keep nobody else from signing in, and those of all addresses nobody who has.
func TestStrangersKeepNobodyOut(t *testing.T) {
	s := &server{now: time.Unix(1_000_000, 0)}
	r := s.reviewer()
	tries := 0
	flood := func(addresses int) {
		t.Helper()
		for range 10 * reviewsBurst {
			tries++
			if _, err := r.Identify(t.Context(), fmt.Sprintf("10.1.0.%d", tries%addresses), fmt.Sprint(tries)); !errors.Is(err, ErrUnknown) && !errors.Is(err, ErrBusy) {
				t.Fatal(err)
			}
		}
	}
	flood(1)
	if _, err := r.Identify(t.Context(), "10.0.0.1", "anns"); err != nil {
		t.Errorf("signing in beside strangers of one address: %v", err)
	}
	for range 100 {
		flood(100)
		s.now = s.now.Add(cacheFor)
		if who, err := r.Identify(t.Context(), "10.1.0.1", "anns"); err != nil || who.Name != "ann" {
			t.Fatalf("who has signed in, beside strangers everywhere: %v", err)
		}
	}
}

// People who use millctl by port-forwards, each with a new token each time, all come from the loopback
// address.
func TestPortForwardsShareAnAddress(t *testing.T) {
	for from, want := range map[string]int{"127.0.0.1": reviewsBurst, "[::1]": reviewsBurst, "10.0.0.1": addressBurst} {
		s := &server{now: time.Unix(1_000_000, 0)}
		r := s.reviewer()
		for i := range 2 * reviewsBurst {
			_, _ = r.Identify(t.Context(), from, fmt.Sprint(i))
		}
		if s.tokens != want {
			t.Errorf("from %s: %d reviews, want %d", from, s.tokens, want)
		}
	}
}

// A token that is withdrawn is refused once the last answer is old, and is then a stranger's.
func TestTokensThatAreWithdrawn(t *testing.T) {
	s := &server{now: time.Unix(1_000_000, 0)}
	r := s.reviewer()
	if _, err := r.Identify(t.Context(), "10.0.0.1", "anns"); err != nil {
		t.Fatal(err)
	}
	s.now, s.withdrawn = s.now.Add(cacheFor), true
	asked := s.tokens
	for range 10 {
		if _, err := r.Identify(t.Context(), "10.0.0.1", "anns"); !errors.Is(err, ErrUnknown) {
			t.Fatal(err)
		}
	}
	if s.tokens != asked+1 || len(r.tokens) > 0 {
		t.Errorf("%d reviews, %d tokens remembered", s.tokens-asked, len(r.tokens))
	}
}

// While the API server gives no answer, what it allowed last counts for a while, and nothing that it did not
// allow; to a question about an act no old answer counts.
func TestWhatWasAllowedCountsWhileNobodyAnswers(t *testing.T) {
	s := &server{now: time.Unix(1_000_000, 0), may: true, staleFor: time.Minute}
	r := s.reviewer()
	ann, err := r.Identify(t.Context(), "10.0.0.1", "anns")
	if err != nil {
		t.Fatal(err)
	}
	bob := &Identity{Name: "bob", Groups: []string{"g"}, Extra: ann.Extra}
	if err := r.Check(t.Context(), ann, approve, false); err != nil {
		t.Fatal(err)
	}
	if err := r.Check(t.Context(), bob, approve, false); !errors.Is(err, ErrForbidden) {
		t.Fatal(err)
	}
	s.err = errors.New("away")
	for _, c := range []struct {
		after time.Duration
		want  error
	}{{cacheFor + time.Minute - 1, nil}, {1, ErrUnavailable}} {
		s.now = s.now.Add(c.after)
		if _, err := r.Identify(t.Context(), "10.0.0.1", "anns"); !errors.Is(err, c.want) {
			t.Errorf("who asks, %v later: %v", c.after, err)
		}
		if err := r.Check(t.Context(), ann, approve, false); !errors.Is(err, c.want) {
			t.Errorf("whether ann may, %v later: %v", c.after, err)
		}
		if err := r.Check(t.Context(), bob, approve, false); !errors.Is(err, ErrUnavailable) {
			t.Errorf("whether bob may, %v later: %v", c.after, err)
		}
		if err := r.Check(t.Context(), ann, approve, true); !errors.Is(err, ErrUnavailable) {
			t.Errorf("whether ann may act, %v later: %v", c.after, err)
		}
	}
}
