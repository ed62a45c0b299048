package bucket

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// scheme begins locations that are no directories.
const scheme = "s3://"

// Is reports that a location names a bucket and not a directory.
func Is(location string) bool { return strings.HasPrefix(location, scheme) }

// Location of archives: s3://BUCKET/PREFIX?PARAMETER=VALUE&…
type Location struct {
	Bucket, Prefix string
	// Region of the bucket; empty: the SDK's.
	Region string
	// Endpoint of a store other than S3, and whether it is asked for /BUCKET/KEY rather than for a host
	// BUCKET.….
	Endpoint  string
	PathStyle bool
	// Encryption of objects: AES256, aws:kms or aws:kms:dsse; empty: as the bucket says. KMSKey is the key's
	// id or ARN; empty: the account's for S3.
	Encryption, KMSKey string
	// LockMode is GOVERNANCE or COMPLIANCE; with LockFor no segment can be deleted before. Empty: as the
	// bucket says.
	LockMode string
	LockFor  time.Duration
	// Owner is the account that the bucket must belong to; empty: any.
	Owner string
	// Cache is the local directory of copies and of what is being written; empty: below that for temporary
	// files. CacheBytes bounds it; 0: cacheBytesDefault.
	Cache      string
	CacheBytes int64
}

const (
	day             = 24 * time.Hour
	lockDaysMax     = 100 * 365
	cacheMiBMin     = 64
	accountIDDigits = 12
)

var bucketForm = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)

// parameters by name; each sets its field, or says what it should be.
var parameters = map[string]func(l *Location, value string) error{
	"region":    func(l *Location, v string) error { l.Region = v; return nil },
	"endpoint":  setEndpoint,
	"pathStyle": func(l *Location, v string) (err error) { l.PathStyle, err = strconv.ParseBool(v); return err },
	"sse":       func(l *Location, v string) error { return oneOf(&l.Encryption, v, "AES256", "aws:kms", "aws:kms:dsse") },
	"kmsKey":    func(l *Location, v string) error { l.KMSKey = v; return nil },
	"lockMode":  func(l *Location, v string) error { return oneOf(&l.LockMode, v, "GOVERNANCE", "COMPLIANCE") },
	"lockDays": func(l *Location, v string) error {
		n, err := between(v, 1, lockDaysMax)
		l.LockFor = time.Duration(n) * day
		return err
	},
	"owner": func(l *Location, v string) error {
		if l.Owner = v; len(v) != accountIDDigits || strings.Trim(v, "0123456789") != "" {
			return fmt.Errorf("want the %d digits of an account", accountIDDigits)
		}
		return nil
	},
	"cache": func(l *Location, v string) error { l.Cache = v; return nil },
	"cacheMiB": func(l *Location, v string) error {
		n, err := between(v, cacheMiBMin, 1<<30)
		l.CacheBytes = n << 20
		return err
	},
}

func setEndpoint(l *Location, value string) error {
	u, err := url.Parse(value)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return errors.New("want a URL such as https://s3.example.com")
	}
	l.Endpoint = value
	return nil
}

func oneOf(field *string, value string, allowed ...string) error {
	if *field = value; !slices.Contains(allowed, value) {
		return fmt.Errorf("want one of %s", strings.Join(allowed, ", "))
	}
	return nil
}

func between(value string, low, high int64) (int64, error) {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < low || n > high {
		return 0, fmt.Errorf("want a number from %d to %d", low, high)
	}
	return n, nil
}

// Parse reads a location, and names all that is wrong in it.
func Parse(text string) (l Location, err error) {
	u, err := url.Parse(text)
	if err != nil || !Is(text) {
		return l, fmt.Errorf("%q is no s3://BUCKET/PREFIX", text)
	}
	l.Bucket, l.Prefix = u.Host, strings.Trim(path.Clean("/"+u.Path), "/")
	var errs []error
	if !bucketForm.MatchString(l.Bucket) {
		errs = append(errs, fmt.Errorf("bucket %q: no bucket has such a name", l.Bucket))
	}
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil || u.Fragment != "" || u.User != nil {
		errs = append(errs, fmt.Errorf("%q: after the prefix there are only parameters: ?region=…&…", text))
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		set, known := parameters[name]
		if !known {
			errs = append(errs, fmt.Errorf("parameter %s: there is none of that name; there are %s", name, strings.Join(slices.Sorted(maps.Keys(parameters)), ", ")))
		} else if err := set(&l, values.Get(name)); err != nil || len(values[name]) > 1 {
			errs = append(errs, fmt.Errorf("parameter %s=%s: %w", name, strings.Join(values[name], ","), errors.Join(err, once(values[name]))))
		}
	}
	if (l.LockMode == "") != (l.LockFor == 0) {
		errs = append(errs, errors.New("parameters lockMode and lockDays go together"))
	}
	if l.KMSKey != "" && !strings.HasPrefix(l.Encryption, "aws:kms") {
		errs = append(errs, errors.New("parameter kmsKey goes with sse=aws:kms or sse=aws:kms:dsse"))
	}
	return l, errors.Join(errs...)
}

func once(values []string) error {
	if len(values) > 1 {
		return errors.New("it is there more than once")
	}
	return nil
}

// String is the location without its parameters.
func (l Location) String() string { return scheme + path.Join(l.Bucket, l.Prefix) }
