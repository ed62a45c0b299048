package bucket

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/logging"
	smithymiddleware "github.com/aws/smithy-go/middleware"

	"millwright/services/version"
	"millwright/store/archive"
)

const (
	// cacheBytesDefault bounds the copies of segments.
	cacheBytesDefault = 1 << 30
	// attemptsMax bounds the attempts of a request, backoffMax the pause between them.
	attemptsMax = 4
	backoffMax  = 5 * time.Second
	// dialTimeout and headerTimeout find out that nobody answers.
	dialTimeout   = 5 * time.Second
	headerTimeout = 20 * time.Second
	// partBytes and multipartFrom: files from that size on are sent in such parts, a few at a time.
	partBytes       = 8 << 20
	multipartFrom   = 16 << 20
	partsInParallel = 2
	// abortTimeout bounds the clearing away of a broken upload's parts.
	abortTimeout = 10 * time.Second
	// regionOfOthers is what stores that know no regions are told.
	regionOfOthers = "us-east-1"
)

// Open returns the archive of a log below a location: a directory, or s3://BUCKET/PREFIX with parameters. It
// makes no call. now is the time from which objects are locked: that of a clock with witnesses, for what is
// locked too long can never be unlocked, and what is locked too briefly is not protected. Options
// change the SDK's client, if there is one.
func Open(ctx context.Context, location, logID string, now func() time.Time, options ...func(*s3.Options)) (*archive.Archive, error) {
	if !Is(location) {
		return archive.Open(location, logID), nil
	}
	l, err := Parse(location)
	if err != nil {
		return nil, err
	}
	b, err := New(ctx, l, logID, options...)
	if err != nil {
		return nil, err
	}
	b.now = now
	return archive.New(b, b.cache, logID), nil
}

// New returns the files of one folder of the bucket. Options change the SDK's client.
func New(ctx context.Context, l Location, folder string, options ...func(*s3.Options)) (*Bucket, error) {
	sdk, err := config.LoadDefaultConfig(ctx,
		config.WithLogger(logging.Nop{}), // its warnings bypass our log; failures are returned as errors
		config.WithHTTPClient(httpClient()),
		config.WithAPIOptions([]func(*smithymiddleware.Stack) error{middleware.AddUserAgentKeyValue("millwright", version.Version)}),
		config.WithRetryer(newRetryer),
	)
	if err != nil {
		return nil, fmt.Errorf("load AWS configuration for %s: %w", l, err)
	}
	switch {
	case l.Region != "":
		sdk.Region = l.Region
	case sdk.Region == "" && l.Endpoint != "":
		sdk.Region = regionOfOthers
	case sdk.Region == "":
		return nil, fmt.Errorf("%s: no region: add ?region=…, or set AWS_REGION", l)
	}
	client := s3.NewFromConfig(sdk, append([]func(*s3.Options){func(o *s3.Options) {
		o.UsePathStyle = l.PathStyle
		if l.Endpoint != "" {
			o.BaseEndpoint = aws.String(l.Endpoint)
		}
	}}, options...)...)
	if l.CacheBytes == 0 {
		l.CacheBytes = cacheBytesDefault
	}
	if l.Cache == "" {
		l.Cache = filepath.Join(os.TempDir(), "millwright-archive")
	}
	return &Bucket{
		client: client, location: l, folder: path.Join(l.Prefix, folder), cache: archive.NewCache(l.Cache, l.CacheBytes), now: time.Now,
		uploads: transfermanager.New(client, func(o *transfermanager.Options) {
			o.PartSizeBytes, o.MultipartUploadThreshold, o.Concurrency, o.FailTimeout = partBytes, multipartFrom, partsInParallel, abortTimeout
		}),
	}, nil
}

// httpClient has no timeout for a whole exchange, which may be long: calls have deadlines.
func httpClient() *awshttp.BuildableClient {
	return awshttp.NewBuildableClient().
		WithDialerOptions(func(d *net.Dialer) { d.Timeout = dialTimeout }).
		WithTransportOptions(func(t *http.Transport) { t.TLSHandshakeTimeout, t.ResponseHeaderTimeout = dialTimeout, headerTimeout })
}

// newRetryer also repeats a conditional write that came while another one was under way.
func newRetryer() aws.Retryer {
	standard := retry.NewStandard(func(o *retry.StandardOptions) { o.MaxAttempts, o.MaxBackoff = attemptsMax, backoffMax })
	return retry.AddWithErrorCodes(standard, "ConditionalRequestConflict", "OperationAborted")
}
