// Package buckettest starts bin/s3server (testdata/s3server) for tests: a server of S3's API, with versions
// and Object Lock.
package buckettest

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

const (
	region = "us-east-1"
	// key and secret of the server's one account.
	key, secret = "buckettest", "buckettest-secret"
	startMax    = 30 * time.Second
)

// Server holds buckets below a directory of the test. Its credentials are set in the environment.
type Server struct {
	// Endpoint is its URL.
	Endpoint string
	Client   *s3.Client
}

// Start starts bin/s3server (make bin/s3server), which ends with the test.
func Start(t *testing.T) *Server {
	t.Helper()
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret, "AWS_REGION": region} {
		t.Setenv(name, value)
	}
	address := freeAddress(t)
	cmd := exec.Command(binary(t), "--dir", t.TempDir(), "--listen", address)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	s := &Server{Endpoint: "http://" + address}
	s.Client = s3.New(s3.Options{Region: region, BaseEndpoint: &s.Endpoint, UsePathStyle: true, Credentials: credentials.NewStaticCredentialsProvider(key, secret, "")})
	deadline, cancel := context.WithTimeout(t.Context(), startMax)
	defer cancel()
	for answers := false; !answers; {
		request, err := http.NewRequestWithContext(deadline, http.MethodGet, s.Endpoint, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if answers = err == nil; answers {
			_ = response.Body.Close()
		}
		if deadline.Err() != nil {
			t.Fatalf("s3server does not answer at %s: %v", s.Endpoint, err)
		}
	}
	return s
}

// Bucket makes a bucket, with Object Lock or without.
func (s *Server) Bucket(t *testing.T, name string, lock bool) {
	t.Helper()
	if _, err := s.Client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &name, ObjectLockEnabledForBucket: aws.Bool(lock)}); err != nil {
		t.Fatal(err)
	}
}

// Location of an archive in a bucket.
func (s *Server) Location(t *testing.T, bucketAndPrefix string) string {
	return "s3://" + bucketAndPrefix + "?pathStyle=true&endpoint=" + s.Endpoint + "&cache=" + t.TempDir()
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// binary is bin/s3server of the repository.
func binary(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	for err == nil {
		path := filepath.Join(dir, "bin", "s3server")
		if _, err := os.Stat(path); err == nil {
			return path
		}
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil || dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	t.Fatalf("bin/s3server is missing below %s: make bin/s3server (%v)", dir, err)
	return ""
}
