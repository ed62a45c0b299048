// Command s3server serves buckets in a directory by S3's API, for tests of the archive: VersityGW with its
// posix backend, versions and Object Lock included. It is a module of its own, so that what VersityGW depends
// on is no part of Millwright.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"
)

// copyBytesMax is S3's limit of an object that is copied at once.
const copyBytesMax = 5 << 30

func main() {
	dir := flag.String("dir", "", "directory that holds the buckets")
	address := flag.String("listen", "127.0.0.1:7480", "address and port of the API")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *dir, *address); err != nil {
		fmt.Fprintf(os.Stderr, "s3server: %v\n", err)
		os.Exit(1)
	}
}

// serve takes the credentials of its one account from the environment, as the SDK does.
func serve(ctx context.Context, dir, address string) error {
	if dir == "" {
		return errors.New("missing --dir")
	}
	buckets, versions := filepath.Join(dir, "buckets"), filepath.Join(dir, "versions")
	for _, path := range []string{buckets, versions} {
		if err := os.MkdirAll(path, 0o700); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
	}
	backend, err := posix.New(buckets, meta.XattrMeta{}, posix.PosixOpts{VersioningDir: versions, CopyObjectThreshold: copyBytesMax})
	if err != nil {
		return fmt.Errorf("open %s: %w", buckets, err)
	}
	return embedgw.RunVersityGW(ctx, backend, &embedgw.Config{
		RootUserAccess: os.Getenv("AWS_ACCESS_KEY_ID"), RootUserSecret: os.Getenv("AWS_SECRET_ACCESS_KEY"), Region: os.Getenv("AWS_REGION"),
		Ports: []string{address}, MaxConnections: 256, MaxRequests: 256, MultipartMaxParts: 10000, Quiet: true, KeepAlive: true,
	})
}
