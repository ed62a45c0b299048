package ec2

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// credentialsError says that there were no credentials for a call, so that nothing was sent: STS, the agent
// of EKS Pod Identity or the instance metadata refused, or did not answer. It unwraps nothing. Their errors
// have codes such as AccessDenied and ResourceNotFoundException, which would be taken for what the service
// says of that which was to be called.
type credentialsError struct{ text string }

func (e *credentialsError) Error() string { return "no credentials: " + e.text }

// provider is one of credentials whose errors are told from those of the services that they are for.
type provider struct{ aws.CredentialsProvider }

// Retrieve implements aws.CredentialsProvider. Where the caller has given up, so it says.
func (p provider) Retrieve(ctx context.Context) (aws.Credentials, error) {
	found, err := p.CredentialsProvider.Retrieve(ctx)
	if err != nil && ctx.Err() == nil {
		err = &credentialsError{text: Text(err)}
	}
	return found, err
}

// withCredentials has the clients of a configuration tell a lack of credentials from an answer.
func withCredentials(cfg aws.Config) aws.Config {
	if cfg.Credentials != nil {
		cfg.Credentials = aws.NewCredentialsCache(provider{cfg.Credentials})
	}
	return cfg
}

// lackOfCredentials is why there were none for a call; nil if it was something else that failed.
func lackOfCredentials(err error) *credentialsError {
	found, _ := errors.AsType[*credentialsError](err)
	return found
}
