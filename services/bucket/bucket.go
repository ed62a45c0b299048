package bucket

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/url"
	"os"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	uploadtypes "github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"millwright/store/archive"
)

const (
	// callTimeout bounds calls about small objects and names, transferTimeout those that move a segment; both
	// with their repetitions.
	callTimeout     = time.Minute
	transferTimeout = 5 * time.Minute
	// smallBytesMax bounds what Swap compares.
	smallBytesMax = 1 << 16
)

// Bucket is a folder of a bucket, as the Files of an archive. It is safe for concurrent use.
type Bucket struct {
	client   *s3.Client
	uploads  *transfermanager.Client
	location Location
	// folder is the keys' beginning, without the last slash.
	folder string
	cache  *archive.Cache
	now    func() time.Time
	// conditional: the store was seen to keep the condition of a write.
	conditional atomic.Bool
}

var _ archive.Files = (*Bucket)(nil)

// Location implements archive.Files.
func (b *Bucket) Location() string { return scheme + path.Join(b.location.Bucket, b.folder) }

// Scratch implements archive.Files.
func (b *Bucket) Scratch() (string, error) { return b.cache.Scratch() }

// Lock implements archive.Files. Nothing keeps other writers away: no object is ever overwritten.
func (b *Bucket) Lock(context.Context) (unlock func(), exclusive bool, err error) {
	return func() {}, false, nil
}

func (b *Bucket) key(name string) *string { return aws.String(path.Join(b.folder, name)) }

func (b *Bucket) owner() *string { return optional(b.location.Owner) }

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// List implements archive.Files.
func (b *Bucket) List(ctx context.Context) ([]archive.File, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	prefix := b.folder + "/"
	if b.folder == "" {
		prefix = ""
	}
	pages := s3.NewListObjectsV2Paginator(b.client, &s3.ListObjectsV2Input{
		Bucket: &b.location.Bucket, Prefix: &prefix, Delimiter: aws.String("/"), ExpectedBucketOwner: b.owner(),
	})
	var list []archive.File
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, b.failed("list", "", err)
		}
		for _, o := range page.Contents {
			list = append(list, archive.File{Name: strings.TrimPrefix(aws.ToString(o.Key), prefix), Bytes: aws.ToInt64(o.Size), Version: aws.ToString(o.ETag)})
		}
	}
	return list, nil
}

// Open implements archive.Files. The SDK compares what is read with the checksum that is kept of it.
func (b *Bucket) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	body, _, err := b.get(ctx, name)
	return body, err
}

// get returns an object and its ETag.
func (b *Bucket) get(ctx context.Context, name string) (io.ReadCloser, string, error) {
	ctx, cancel := context.WithTimeout(ctx, transferTimeout)
	out, err := b.client.GetObject(ctx, &s3.GetObjectInput{
		Bucket: &b.location.Bucket, Key: b.key(name), ChecksumMode: types.ChecksumModeEnabled, ExpectedBucketOwner: b.owner(),
	})
	if err != nil {
		cancel()
		return nil, "", b.failed("read", name, err)
	}
	return &body{ReadCloser: out.Body, cancel: cancel}, aws.ToString(out.ETag), nil
}

// body of an object, whose deadline ends when it is closed.
type body struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b *body) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}

// Publish implements archive.Files.
func (b *Bucket) Publish(ctx context.Context, local, name string) error {
	ctx, cancel := context.WithTimeout(ctx, transferTimeout)
	defer cancel()
	file, err := os.Open(local)
	if err != nil {
		return err
	}
	defer file.Close()
	in := &transfermanager.UploadObjectInput{
		Bucket: &b.location.Bucket, Key: b.key(name), Body: file, IfNoneMatch: aws.String("*"), ChecksumAlgorithm: uploadtypes.ChecksumAlgorithmSha256,
		ContentType: aws.String("application/octet-stream"), ExpectedBucketOwner: b.owner(),
		ServerSideEncryption: uploadtypes.ServerSideEncryption(b.location.Encryption), SSEKMSKeyID: optional(b.location.KMSKey),
		ObjectLockMode: uploadtypes.ObjectLockMode(b.location.LockMode), ObjectLockRetainUntilDate: b.retainUntil(),
	}
	if _, err := b.uploads.UploadObject(ctx, in); err != nil {
		return b.failed("write", name, err)
	}
	return nil
}

// retainUntil is nil if the bucket says how long objects are kept.
func (b *Bucket) retainUntil() *time.Time {
	if b.location.LockFor == 0 {
		return nil
	}
	return aws.Time(b.now().Add(b.location.LockFor).UTC())
}

// errUnconditional: two writers could overwrite each other's objects.
var errUnconditional = errors.New("the store ignores If-None-Match, so that two writers could overwrite each other: it cannot hold an archive")

// Swap implements archive.Files.
func (b *Bucket) Swap(ctx context.Context, name string, old, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var is, isNot *string
	if old == nil {
		isNot = aws.String("*")
	} else {
		now, tag, err := b.small(ctx, name)
		if err != nil {
			return err
		}
		if !bytes.Equal(now, old) {
			return fmt.Errorf("replace %s: %w", b.url(name), fs.ErrExist)
		}
		is = &tag
	}
	err := b.put(ctx, name, data, is, isNot)
	if err == nil && old == nil && !b.conditional.Load() {
		if again := b.put(ctx, name, data, nil, isNot); again == nil {
			return fmt.Errorf("write %s: %w", b.url(name), errUnconditional)
		} else if errors.Is(again, fs.ErrExist) {
			b.conditional.Store(true)
		}
	}
	if errors.Is(err, fs.ErrExist) { // perhaps by this call, whose first answer was lost
		if now, _, readErr := b.small(ctx, name); readErr == nil && bytes.Equal(now, data) {
			return nil
		}
	}
	return err
}

// CheckConditions finds out whether objects may be written and the store keeps the condition of a write,
// by one that must be refused: an object that does not exist is to be replaced.
func (b *Bucket) CheckConditions(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	name := fmt.Sprintf("preflight-%016x", rand.Uint64())
	err := b.put(ctx, name, []byte("{}"), aws.String(`"none"`), nil)
	switch {
	case errors.Is(err, fs.ErrExist), errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil:
		return errors.Join(fmt.Errorf("write %s: %w", b.url(name), errUnconditional), b.Remove(ctx, name))
	}
	return err
}

func (b *Bucket) put(ctx context.Context, name string, data []byte, ifIs, ifIsNot *string) error {
	_, err := b.client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &b.location.Bucket, Key: b.key(name), Body: bytes.NewReader(data), IfMatch: ifIs, IfNoneMatch: ifIsNot,
		ChecksumAlgorithm: types.ChecksumAlgorithmSha256, ContentType: aws.String("application/json"), ExpectedBucketOwner: b.owner(),
		ServerSideEncryption: types.ServerSideEncryption(b.location.Encryption), SSEKMSKeyId: optional(b.location.KMSKey),
	})
	if err != nil {
		return b.failed("write", name, err)
	}
	return nil
}

// small reads an object of a few bytes.
func (b *Bucket) small(ctx context.Context, name string) (data []byte, tag string, err error) {
	in, tag, err := b.get(ctx, name)
	if err != nil {
		return nil, "", err
	}
	data, err = io.ReadAll(io.LimitReader(in, smallBytesMax))
	if err = errors.Join(err, in.Close()); err != nil {
		return nil, "", b.failed("read", name, err)
	}
	return data, tag, nil
}

// Remove implements archive.Files. In a bucket with versions what was there becomes an old version.
func (b *Bucket) Remove(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := b.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &b.location.Bucket, Key: b.key(name), ExpectedBucketOwner: b.owner()})
	if err != nil {
		return b.failed("delete", name, err)
	}
	return nil
}

// Move implements archive.Files by copying: after a crash both are there.
func (b *Bucket) Move(ctx context.Context, name, folder string) error {
	ctx, cancel := context.WithTimeout(ctx, transferTimeout)
	defer cancel()
	to := path.Join(folder, name)
	_, err := b.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &b.location.Bucket, Key: b.key(to), ExpectedBucketOwner: b.owner()})
	if err == nil {
		return fmt.Errorf("move to %s: %w", b.url(to), fs.ErrExist)
	}
	if err := b.failed("look for", to, err); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	source := url.PathEscape(b.location.Bucket + "/" + *b.key(name))
	_, err = b.client.CopyObject(ctx, &s3.CopyObjectInput{
		Bucket: &b.location.Bucket, Key: b.key(to), CopySource: &source, ChecksumAlgorithm: types.ChecksumAlgorithmSha256,
		ExpectedBucketOwner: b.owner(), ExpectedSourceBucketOwner: b.owner(),
		ServerSideEncryption: types.ServerSideEncryption(b.location.Encryption), SSEKMSKeyId: optional(b.location.KMSKey),
		ObjectLockMode: types.ObjectLockMode(b.location.LockMode), ObjectLockRetainUntilDate: b.retainUntil(),
	})
	if err != nil {
		return b.failed("copy", name, err)
	}
	return b.Remove(ctx, name)
}
