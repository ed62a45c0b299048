package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"millwright/services/console/trust"
)

// tokenSeconds is how long a token that is made for a call is good: the shortest that there is.
const tokenSeconds = 600

// token returns a bearer token for the console and, if it is not the user's own, on whose behalf it is used.
//
// The user's own is good for the API server too, so it goes only where the user has said that the console is:
// anybody who owns a namespace can put a Service there that looks like a console's.
func (c *Cluster) token(ctx context.Context, found service) (token, asked string, err error) {
	named := c.settings.InstalledIn != "" || c.settings.URL != ""
	if c.settings.Account == "" && named {
		if token, err = ownToken(ctx, c.Config); token != "" || err != nil {
			return token, "", err
		}
	}
	namespace, name, ok := strings.Cut(c.settings.Account, "/")
	switch {
	case c.settings.Account == "" && found.name == "":
		return "", "", fmt.Errorf("%w: your kubeconfig has no token: name a ServiceAccount to ask as with --console-service-account", ErrUnreachable)
	case c.settings.Account == "":
		namespace, name = found.namespace, strings.TrimSuffix(found.name, "-console")+"-operator"
	case !ok || namespace == "" || name == "":
		return "", "", fmt.Errorf("--console-service-account is NAMESPACE/NAME, not %q", c.settings.Account)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	seconds := int64(tokenSeconds)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{trust.Audience}, ExpirationSeconds: &seconds}}
	answer, err := c.Core.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil && !named {
		return "", "", fmt.Errorf("%w: a token of ServiceAccount %s/%s cannot be had; your own is sent only to a console whose namespace you name with --console-namespace: %w",
			ErrUnreachable, namespace, name, err)
	}
	if err != nil {
		return "", "", fmt.Errorf("%w: your kubeconfig has no token of your own, and one of ServiceAccount %s/%s cannot be had: %w", ErrUnreachable, namespace, name, err)
	}
	return answer.Status.Token, c.user(ctx), nil
}

// user is the name by which the API server knows the user.
func (c *Cluster) user(ctx context.Context) string {
	review, err := c.Core.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil || review.Status.UserInfo.Username == "" {
		return "a user of this kubeconfig"
	}
	return review.Status.UserInfo.Username
}

// errCaught ends a request that is never sent.
var errCaught = errors.New("not sent")

// ownToken is the bearer token that requests to the API server have, wherever the kubeconfig has it from: its
// own text, a file, a program; "" if they have none.
func ownToken(ctx context.Context, config *rest.Config) (string, error) {
	var header string
	catch := roundTripper(func(r *http.Request) (*http.Response, error) {
		header = r.Header.Get("Authorization")
		return nil, errCaught
	})
	wrapped, err := rest.HTTPWrappersForConfig(config, catch)
	if err != nil {
		return "", fmt.Errorf("read the token of the kubeconfig: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://console.invalid/", nil)
	if err != nil {
		return "", fmt.Errorf("read the token of the kubeconfig: %w", err)
	}
	response, err := wrapped.RoundTrip(request)
	if response != nil && response.Body != nil {
		_ = response.Body.Close()
	}
	if !errors.Is(err, errCaught) {
		return "", fmt.Errorf("read the token of the kubeconfig: %w", err)
	}
	kind, token, _ := strings.Cut(header, " ")
	if !strings.EqualFold(kind, "Bearer") {
		return "", nil
	}
	return strings.TrimSpace(token), nil
}

// roundTripper is a function that answers requests.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
