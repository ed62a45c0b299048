package bucket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/aws/smithy-go"
)

// hints by code of S3's errors: what to do about them.
var hints = map[string]string{
	"AccessDenied":                 "the credentials may not: `millctl aws policy --archive-dir` prints what is needed",
	"NoSuchBucket":                 "no bucket has this name",
	"PermanentRedirect":            "the bucket is in another region: name it by ?region=…",
	"AuthorizationHeaderMalformed": "the bucket is in another region: name it by ?region=…",
	"InvalidObjectState":           "it was moved to a storage class that cannot be read at once: restore it",
	"KMS.DisabledException":        "the KMS key is disabled",
	"RequestTimeTooSkewed":         "the clock is wrong",
	"QuotaExceeded":                "the bucket is full",
	"InsufficientStorage":          "the bucket is full",
	"InvalidBucketState":           "Object Lock is not enabled on the bucket, or is in another state",
}

// failed says what was done to which object, as fs.ErrNotExist and fs.ErrExist where the store says so.
func (b *Bucket) failed(verb, name string, err error) error {
	var api smithy.APIError
	if !errors.As(err, &api) {
		if errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("%s %s: the store has not answered in time: %w", verb, b.url(name), err)
		}
		return fmt.Errorf("%s %s: %w", verb, b.url(name), err)
	}
	switch code := api.ErrorCode(); code {
	case "NoSuchKey", "NotFound":
		return fmt.Errorf("%s %s: %w", verb, b.url(name), fs.ErrNotExist)
	case "PreconditionFailed":
		return fmt.Errorf("%s %s: %w", verb, b.url(name), fs.ErrExist)
	default:
		if hint := hints[code]; hint != "" {
			return fmt.Errorf("%s %s: %s: %w", verb, b.url(name), hint, err)
		}
		return fmt.Errorf("%s %s: %w", verb, b.url(name), err)
	}
}

func (b *Bucket) url(name string) string {
	if name == "" {
		return b.Location()
	}
	return b.Location() + "/" + name
}
