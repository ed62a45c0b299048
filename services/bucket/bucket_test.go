package bucket

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"millwright/services/bucket/buckettest"
	"millwright/store"
	"millwright/store/archive"
	"millwright/store/memlog"
)

// filled returns a log with n records after the genesis.
func filled(t *testing.T, n int) *memlog.Log {
	t.Helper()
	log := memlog.New("test")
	grow(t, log, "r", n)
	return log
}

func grow(t *testing.T, log *memlog.Log, what string, n int) {
	t.Helper()
	for i := range n {
		d := store.Draft{Time: time.Unix(int64(4e9+i), 0), Service: "provisioner", Mode: "active", Kind: 10, Payload: fmt.Appendf(nil, `{"%s":%d}`, what, i)}
		if _, err := log.Append(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
}

func all(t *testing.T, log store.Log) (out []store.Record) {
	t.Helper()
	for {
		page, err := log.Read(t.Context(), uint64(len(out))+1, 97)
		if err != nil {
			t.Fatalf("read after %d records: %v", len(out), err)
		}
		if out = append(out, page...); len(page) < 97 {
			return out
		}
	}
}

func same(t *testing.T, want, got []store.Record) {
	t.Helper()
	if len(want) != len(got) {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
	for i, w := range want {
		if w.Hash != got[i].Hash || !bytes.Equal(w.Payload, got[i].Payload) {
			t.Fatalf("record %d is %d: %.60s", w.Seq, got[i].Seq, got[i].Payload)
		}
	}
}

func location(t *testing.T, s *buckettest.Server, where string) Location {
	t.Helper()
	l, err := Parse(s.Location(t, where))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func open(t *testing.T, l Location, log *memlog.Log, options ...func(*s3.Options)) *archive.Archive {
	t.Helper()
	b, err := New(t.Context(), l, log.ID(), options...)
	if err != nil {
		t.Fatal(err)
	}
	a := archive.New(b, b.cache, log.ID())
	t.Cleanup(func() { _ = a.Close() })
	return a
}

func move(ctx context.Context, log archive.Live, a *archive.Archive, through uint64) error {
	_, err := archive.NewArchiver(archive.Config{Cluster: "test", Live: log, Archive: a}).Archive(ctx, through)
	return err
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestRecordsLiveOnInABucket(t *testing.T) {
	server := buckettest.Start(t)
	server.Bucket(t, "logs", false)
	l := location(t, server, "logs/some/prefix")
	log := filled(t, 250)
	want := all(t, log)
	a := open(t, l, log)
	for _, through := range []uint64{50, 100, 101, 200} {
		check(t, move(t.Context(), log, a, through))
	}
	same(t, want, all(t, archive.Join(log, a)))
	l.Cache = t.TempDir() // another process, elsewhere
	other := open(t, l, log)
	same(t, want, all(t, archive.Join(log, other)))
	if last, err := archive.Join(log, other).Verify(t.Context()); err != nil || last != 251 {
		t.Errorf("verified to %d, %v", last, err)
	}
	deleted, err := other.Prune(t.Context(), store.Head{Seq: 200, Hash: want[199].Hash}, want[105].Time)
	if err != nil || len(deleted) != 3 {
		t.Fatalf("pruned %v, %v", deleted, err)
	}
	if _, err := archive.Join(log, other).Read(t.Context(), 60, 1); !errors.Is(err, store.ErrCompacted) {
		t.Errorf("read what was pruned: %v", err)
	}
	check(t, move(t.Context(), log, a, 240))
	if last, err := archive.Join(log, open(t, l, log)).Verify(t.Context()); err != nil || last != 251 {
		t.Errorf("verified to %d, %v", last, err)
	}
}

// A directory is moved to a bucket by copying its files, and the archive goes on there.
func TestADirectoryMovesToABucketByACopy(t *testing.T) {
	server := buckettest.Start(t)
	server.Bucket(t, "logs", false)
	log := filled(t, 100)
	want := all(t, log)
	dir := t.TempDir()
	check(t, move(t.Context(), log, archive.Open(dir, log.ID()), 60))
	files, err := filepath.Glob(filepath.Join(dir, log.ID(), "*"))
	check(t, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		check(t, err)
		_, err = server.Client.PutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String("logs"), Key: aws.String(path.Join("p", log.ID(), filepath.Base(file))), Body: bytes.NewReader(data)})
		check(t, err)
	}
	a := open(t, location(t, server, "logs/p"), log)
	check(t, move(t.Context(), log, a, 90))
	same(t, want, all(t, archive.Join(log, a)))
	if _, err := archive.Join(log, a).Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestBigSegmentsGoUpInParts(t *testing.T) {
	server := buckettest.Start(t)
	server.Bucket(t, "logs", false)
	l := location(t, server, "logs")
	log := memlog.New("test")
	random := rand.NewChaCha8([32]byte{1})
	for range 5 {
		payload := make([]byte, 4<<20)
		_, _ = random.Read(payload)
		if _, err := log.Append(t.Context(), store.Draft{Time: time.Unix(4e9, 0), Kind: 10, Payload: payload}); err != nil {
			t.Fatal(err)
		}
	}
	want := all(t, log)
	calls := &calls{}
	a := open(t, l, log, calls.options)
	check(t, move(t.Context(), log, a, 5))
	if parts := calls.count("PUT", "partNumber="); parts < 2 {
		t.Errorf("sent in %d parts", parts)
	}
	same(t, want, all(t, archive.Join(log, a)))
	if err := move(t.Context(), log, open(t, l, log), 5); err != nil {
		t.Error(err)
	}
}

// calls counts requests, and breaks some of them.
type calls struct {
	mu   sync.Mutex
	seen []string
	// before and after may fail the n-th request, counted from 1.
	before func(n int, r *http.Request) (*http.Response, error)
	after  func(n int, r *http.Request, response *http.Response) (*http.Response, error)
}

func (c *calls) options(o *s3.Options) {
	o.HTTPClient = c
	o.Retryer = retry.NewStandard(func(o *retry.StandardOptions) { o.MaxAttempts, o.MaxBackoff = 2, time.Millisecond })
}

func (c *calls) Do(r *http.Request) (*http.Response, error) {
	c.mu.Lock()
	c.seen = append(c.seen, r.Method+" "+r.URL.RequestURI())
	n := len(c.seen)
	c.mu.Unlock()
	if c.before != nil {
		if response, err := c.before(n, r); response != nil || err != nil {
			return response, err
		}
	}
	response, err := http.DefaultClient.Do(r)
	if err == nil && c.after != nil {
		return c.after(n, r, response)
	}
	return response, err
}

func (c *calls) count(method, part string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.seen {
		if strings.HasPrefix(s, method+" ") && strings.Contains(s, part) {
			n++
		}
	}
	return n
}

var errCut = errors.New("the connection was cut")

func answer(status int, code string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/xml"}},
		Body: io.NopCloser(strings.NewReader("<Error><Code>" + code + "</Code><Message>so it is</Message></Error>"))}
}

// The n-th call fails, for every n, alone or with all that follow, before it arrives or after; the next
// attempt, of the same process or of another, goes on. Whatever happens, each record can be read and verified
// at any time.
func TestAFailureOfAnyCallLosesNothing(t *testing.T) {
	server := buckettest.Start(t)
	server.Bucket(t, "logs", false)
	faults := map[string]func(c *calls, n int, still bool){
		"the request is lost": func(c *calls, at int, still bool) {
			c.before = func(n int, _ *http.Request) (*http.Response, error) {
				if n == at || still && n > at {
					return nil, errCut
				}
				return nil, nil
			}
		},
		"the answer is lost": func(c *calls, at int, still bool) {
			c.after = func(n int, _ *http.Request, response *http.Response) (*http.Response, error) {
				if n == at || still && n > at {
					_ = response.Body.Close()
					return nil, errCut
				}
				return response, nil
			}
		},
		"the body ends early": func(c *calls, at int, still bool) {
			c.after = func(n int, _ *http.Request, response *http.Response) (*http.Response, error) {
				if n == at || still && n > at {
					response.Body = struct {
						io.Reader
						io.Closer
					}{io.LimitReader(response.Body, 10), response.Body}
				}
				return response, nil
			}
		},
	}
	faults["it is refused"] = func(c *calls, at int, still bool) {
		c.before = func(n int, _ *http.Request) (*http.Response, error) {
			if n == at || still && n > at {
				return answer(http.StatusForbidden, "AccessDenied"), nil
			}
			return nil, nil
		}
	}
	for fault, arm := range faults {
		for _, still := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, and goes on so %t", fault, still), func(t *testing.T) {
				for n := 1; ; n++ {
					l := location(t, server, fmt.Sprintf("logs/%s/%t/%d", strings.ReplaceAll(fault, " ", "-"), still, n))
					log := filled(t, 30)
					want := all(t, log)
					broken := &calls{}
					arm(broken, n, still)
					a := open(t, l, log, broken.options)
					for _, through := range []uint64{10, 20} {
						_ = move(t.Context(), log, a, through)
					}
					reached := len(broken.seen) >= n
					l.Cache = t.TempDir()
					healthy := open(t, l, log)
					same(t, want, all(t, archive.Join(log, healthy)))
					if err := move(t.Context(), log, healthy, 20); err != nil {
						t.Fatalf("call %d: %v", n, err)
					}
					same(t, want, all(t, archive.Join(log, healthy)))
					if _, err := archive.Join(log, healthy).Verify(t.Context()); err != nil {
						t.Fatalf("call %d: %v", n, err)
					}
					if base, _ := log.Base(t.Context()); base.Seq != 20 {
						t.Fatalf("call %d: live from %d on", n, base.Seq+1)
					}
					if !reached {
						if n < 10 {
							t.Errorf("there are %d calls only", n-1)
						}
						return
					}
				}
			})
		}
	}
}

// Two leaders that do not know of each other archive at the same time, up to different records.
func TestTwoWritersWriteOneArchive(t *testing.T) {
	server := buckettest.Start(t)
	server.Bucket(t, "logs", false)
	l := location(t, server, "logs")
	log := filled(t, 200)
	want := all(t, log)
	var g sync.WaitGroup
	for _, step := range []uint64{7, 10, 13} {
		g.Go(func() {
			l := l
			l.Cache = t.TempDir()
			a := open(t, l, log)
			for through := step; through < 150; through += step {
				_ = move(t.Context(), log, a, through) // it may find that another was faster
			}
		})
	}
	g.Wait()
	a := open(t, l, log)
	check(t, move(t.Context(), log, a, 180))
	same(t, want, all(t, archive.Join(log, a)))
	if _, err := archive.Join(log, a).Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

// A list that lags makes the archive wait, at worst; nothing is written twice and nothing is lost.
func TestAListThatLagsLosesNothing(t *testing.T) {
	server := buckettest.Start(t)
	server.Bucket(t, "logs", false)
	l := location(t, server, "logs")
	log := filled(t, 100)
	want := all(t, log)
	check(t, move(t.Context(), log, open(t, l, log), 20))
	var old []byte
	lagging := &calls{after: func(_ int, r *http.Request, response *http.Response) (*http.Response, error) {
		if r.URL.Query().Get("list-type") != "2" {
			return response, nil
		}
		if old == nil {
			data, err := io.ReadAll(response.Body)
			if err != nil {
				return nil, err
			}
			old = data
		}
		_ = response.Body.Close()
		response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(old)), int64(len(old))
		return response, nil
	}}
	behind := open(t, l, log, lagging.options)
	check(t, move(t.Context(), log, behind, 40)) // the list shows records up to 20 from now on
	if err := move(t.Context(), log, behind, 60); !errors.Is(err, archive.ErrIncomplete) {
		t.Errorf("archived what is not seen to be whole: %v", err)
	}
	a := open(t, l, log)
	check(t, move(t.Context(), log, a, 80))
	same(t, want, all(t, archive.Join(log, a)))
	if _, err := archive.Join(log, a).Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

// The log is restored from a backup that is older than the archive, and a claim is left of what it lost.
func TestAForkInABucketIsSetAside(t *testing.T) {
	server := buckettest.Start(t)
	server.Bucket(t, "logs", false) // S3 writes where a version was deleted, this server does not
	l := location(t, server, "logs")
	log := filled(t, 100)
	check(t, move(t.Context(), log, open(t, l, log), 40))
	restored := log.Copy()
	grow(t, log, "lost", 50)
	check(t, move(t.Context(), log, open(t, l, log), 120))
	cut := &calls{before: func(_ int, r *http.Request) (*http.Response, error) {
		if strings.Contains(r.URL.Path, ".segment") && r.Method == http.MethodPut {
			return nil, errCut
		}
		return nil, nil
	}}
	if err := move(t.Context(), log, open(t, l, log, cut.options), 140); err == nil {
		t.Fatal("the segment was not written, and archived")
	}
	grow(t, restored, "since", 10)
	want := all(t, archive.Join(restored.Copy(), open(t, l, log)))
	a := open(t, l, restored)
	if err := move(t.Context(), restored, a, 105); !errors.Is(err, archive.ErrForked) {
		t.Fatalf("archived a fork: %v", err)
	}
	aside, err := a.SetAside(t.Context(), "test", restored)
	if err != nil || !strings.HasPrefix(aside, a.Location()+"/forked-after-40") {
		t.Fatalf("set aside in %q: %v", aside, err)
	}
	check(t, move(t.Context(), restored, a, 105))
	same(t, want, all(t, archive.Join(restored, a)))
	if _, err := archive.Join(restored, a).Verify(t.Context()); err != nil {
		t.Error(err)
	}
	if again, err := a.SetAside(t.Context(), "test", restored); err != nil || again != "" {
		t.Errorf("there is no fork, and %q, %v", again, err)
	}
}

// A segment under Object Lock can be hidden, and not destroyed.
func TestALockedSegmentCannotBeDestroyed(t *testing.T) {
	server := buckettest.Start(t)
	server.Bucket(t, "logs", true)
	l := location(t, server, "logs")
	l.LockMode, l.LockFor = "COMPLIANCE", 30*day
	log := filled(t, 50)
	a := open(t, l, log)
	check(t, move(t.Context(), log, a, 40))
	versions, err := server.Client.ListObjectVersions(t.Context(), &s3.ListObjectVersionsInput{Bucket: aws.String("logs")})
	check(t, err)
	locked := 0
	for _, v := range versions.Versions {
		if !strings.HasSuffix(*v.Key, ".segment") {
			continue
		}
		locked++
		if _, err := server.Client.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: aws.String("logs"), Key: v.Key, VersionId: v.VersionId}); err == nil {
			t.Errorf("%s was destroyed", *v.Key)
		}
	}
	if locked != 1 {
		t.Errorf("%d segments", locked)
	}
	if _, err := archive.Join(log, a).Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

// How long a segment is locked goes by the clock that is given, which has witnesses, and not by this
// machine's.
func TestTheLockGoesByTheClockThatIsGiven(t *testing.T) {
	server := buckettest.Start(t)
	server.Bucket(t, "logs", true)
	log := filled(t, 30)
	now := time.Now().Add(20 * day).Truncate(time.Second).UTC()
	a, err := Open(t.Context(), server.Location(t, "logs")+"&lockMode=GOVERNANCE&lockDays=30", log.ID(), func() time.Time { return now })
	check(t, err)
	check(t, move(t.Context(), log, a, 20))
	segments, err := a.Segments(t.Context())
	check(t, err)
	head, err := server.Client.HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: aws.String("logs"), Key: aws.String(log.ID() + "/" + segments[0].Name())})
	check(t, err)
	if until := head.ObjectLockRetainUntilDate; until == nil || !until.Equal(now.Add(30*day)) {
		t.Errorf("it is locked until %v, want %s", until, now.Add(30*day))
	}
}

// A store that does not know conditional writes would let two writers overwrite each other.
func TestAStoreThatIgnoresConditionsIsRefused(t *testing.T) {
	server := buckettest.Start(t)
	server.Bucket(t, "logs", false)
	log := filled(t, 30)
	ignorant := &calls{before: func(_ int, r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodPut {
			return nil, nil
		}
		_, _ = io.Copy(io.Discard, r.Body)
		return &http.Response{StatusCode: 200, Header: http.Header{"Etag": {`"x"`}}, Body: http.NoBody}, nil
	}}
	if err := move(t.Context(), log, open(t, location(t, server, "logs"), log, ignorant.options), 20); !errors.Is(err, errUnconditional) {
		t.Errorf("it is used: %v", err)
	}
	if base, _ := log.Base(t.Context()); base.Seq != 0 {
		t.Errorf("live from %d on", base.Seq+1)
	}
}

// What preflight asks leaves nothing behind.
func TestConditionsAreCheckedWithoutAChange(t *testing.T) {
	server := buckettest.Start(t)
	server.Bucket(t, "logs", false)
	l := location(t, server, "logs")
	b, err := New(t.Context(), l, "")
	check(t, err)
	check(t, b.CheckConditions(t.Context()))
	if list, err := b.List(t.Context()); err != nil || len(list) > 0 {
		t.Errorf("there is %v, %v", list, err)
	}
	l.Bucket = "other"
	none, err := New(t.Context(), l, "")
	check(t, err)
	if err := none.CheckConditions(t.Context()); err == nil || !strings.Contains(err.Error(), "no bucket has this name") {
		t.Errorf("no bucket: %v", err)
	}
	refusing := &calls{before: func(int, *http.Request) (*http.Response, error) { return answer(403, "AccessDenied"), nil }}
	b, err = New(t.Context(), l, "", refusing.options)
	check(t, err)
	if err := b.CheckConditions(t.Context()); err == nil || !strings.Contains(err.Error(), "may not") {
		t.Errorf("without rights: %v", err)
	}
}

func TestWhatIsAskedForIsSent(t *testing.T) {
	server := buckettest.Start(t)
	server.Bucket(t, "logs", false)
	l := location(t, server, "logs")
	l.Encryption, l.KMSKey, l.LockMode, l.LockFor, l.Owner = "aws:kms", "arn:aws:kms:us-east-1:111122223333:key/1", "GOVERNANCE", 400*day, "111122223333"
	sent := map[string]string{}
	spy := &calls{before: func(_ int, r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodPut && strings.Contains(r.URL.Path, ".segment") {
			for name := range r.Header {
				sent[name] = r.Header.Get(name)
			}
		}
		if r.Method == http.MethodPut {
			return &http.Response{StatusCode: 200, Header: http.Header{"Etag": {`"x"`}}, Body: http.NoBody}, nil
		}
		return nil, nil
	}}
	b, err := New(t.Context(), l, "id", spy.options)
	check(t, err)
	b.now = func() time.Time { return time.Date(2031, 5, 1, 0, 0, 0, 0, time.UTC) }
	file := filepath.Join(t.TempDir(), "segment")
	check(t, os.WriteFile(file, []byte("hello"), 0o600))
	check(t, b.Publish(t.Context(), file, "x.segment"))
	for name, want := range map[string]string{
		"If-None-Match": "*", "X-Amz-Server-Side-Encryption": "aws:kms", "X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id": l.KMSKey,
		"X-Amz-Object-Lock-Mode": "GOVERNANCE", "X-Amz-Object-Lock-Retain-Until-Date": "2032-06-04T00:00:00Z",
		"X-Amz-Expected-Bucket-Owner": l.Owner, "X-Amz-Checksum-Sha256": "LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=",
	} {
		if sent[name] != want {
			t.Errorf("%s: %q, want %q", name, sent[name], want)
		}
	}
}

func TestErrorsNameTheObjectAndTheWayOut(t *testing.T) {
	server := buckettest.Start(t)
	server.Bucket(t, "logs", false)
	for code, want := range map[string]string{
		"AccessDenied": "millctl aws policy", "NoSuchBucket": "no bucket has this name", "InvalidObjectState": "restore it", "QuotaExceeded": "full",
	} {
		refusing := &calls{before: func(int, *http.Request) (*http.Response, error) { return answer(403, code), nil }}
		b, err := New(t.Context(), location(t, server, "logs/p"), "id", refusing.options)
		check(t, err)
		_, err = b.Open(t.Context(), "x.segment")
		if err == nil || !strings.Contains(err.Error(), "s3://logs/p/id/x.segment") || !strings.Contains(err.Error(), want) || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", code, err)
		}
	}
}

func TestLocations(t *testing.T) {
	good := map[string]Location{
		"s3://logs":                  {Bucket: "logs"},
		"s3://logs/":                 {Bucket: "logs"},
		"s3://logs/a/b/?region=eu-x": {Bucket: "logs", Prefix: "a/b", Region: "eu-x"},
		"s3://my.logs/p?endpoint=https://minio.example:9000&pathStyle=true&cache=/c&cacheMiB=100": {Bucket: "my.logs", Prefix: "p",
			Endpoint: "https://minio.example:9000", PathStyle: true, Cache: "/c", CacheBytes: 100 << 20},
		"s3://logs?sse=aws:kms&kmsKey=arn:aws:kms:r:1:key/2&lockMode=COMPLIANCE&lockDays=400&owner=111122223333": {Bucket: "logs",
			Encryption: "aws:kms", KMSKey: "arn:aws:kms:r:1:key/2", LockMode: "COMPLIANCE", LockFor: 400 * day, Owner: "111122223333"},
	}
	for text, want := range good {
		if got, err := Parse(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"s3://":                                    "bucket",
		"s3://Logs":                                "bucket",
		"s3://logs?pathstyle=true":                 "pathstyle",
		"s3://logs?endpoint=minio":                 "endpoint",
		"s3://logs?sse=none":                       "sse",
		"s3://logs?kmsKey=k":                       "kmsKey",
		"s3://logs?lockMode=GOVERNANCE":            "lockDays",
		"s3://logs?lockDays=0&lockMode=GOVERNANCE": "lockDays",
		"s3://logs?owner=me":                       "owner",
		"s3://logs?cacheMiB=1":                     "cacheMiB",
		"s3://logs?region=a&region=b":              "more than once",
		"s3://u:p@logs":                            "parameters",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
