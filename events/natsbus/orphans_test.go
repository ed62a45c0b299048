package natsbus

import (
	"bytes"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// TestChunksOfCrashedWritersAreCollected: what a writer left that crashed halfway goes once it is old, and
// nothing else does.
func TestChunksOfCrashedWritersAreCollected(t *testing.T) {
	s := startServer(t).open(t, nil)
	b := s.Blobs().(*blobs)
	whole := bytes.Repeat([]byte("checkpoint "), 60_000) // some chunks
	for _, name := range []string{"kept", "replaced", "deleted"} {
		if err := b.Put(t.Context(), name, whole); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Put(t.Context(), "replaced", append([]byte("new "), whole...)); err != nil {
		t.Fatal(err)
	}
	if err := b.Delete(t.Context(), "deleted"); err != nil {
		t.Fatal(err)
	}
	bucket := "$O." + s.cfg.bucket()
	left := func() (subjects, bytes uint64) {
		stream, err := s.js.Stream(t.Context(), "OBJ_"+s.cfg.bucket())
		if err != nil {
			t.Fatal(err)
		}
		info, err := stream.Info(t.Context(), jetstream.WithSubjectFilter(bucket+".C.>"))
		if err != nil {
			t.Fatal(err)
		}
		return uint64(len(info.State.Subjects)), info.State.Bytes
	}
	before, bytesBefore := left()
	if before != 2 {
		t.Fatalf("chunks of %d blobs, want 2", before)
	}
	const crashed = 5
	for i := range crashed { // the chunks of a writer that ended before it described the blob
		for range 3 {
			if _, err := s.js.Publish(t.Context(), fmt.Sprintf("%s.C.CRASHED%d", bucket, i), whole[:128<<10]); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n, err := b.CollectOrphans(t.Context()); err != nil || n != 0 {
		t.Fatalf("collected %d while they may still be written: %v", n, err)
	}
	stream, err := s.js.Stream(t.Context(), b.stream())
	if err != nil {
		t.Fatal(err)
	}
	latest, err := stream.GetLastMsgForSubject(t.Context(), bucket+".C.>")
	if err != nil {
		t.Fatal(err)
	}
	writing := make(chan error, 1) // another blob is being written meanwhile, slowly
	release := make(chan struct{})
	go func() { writing <- b.Write(t.Context(), "slow", slowly(whole, release)) }()
	limit := time.Now().Add(30 * time.Second)
	for writers, _ := left(); writers != before+crashed+1; writers, _ = left() { // until its first chunk is there
		if time.Now().After(limit) {
			t.Fatal("nothing is written")
		}
	}
	n, err := b.collectOrphans(t.Context(), func(_, last time.Time) bool { return !last.After(latest.Time) })
	if err != nil || n != crashed {
		t.Errorf("collected the chunks of %d writers, want %d: %v", n, crashed, err)
	}
	close(release)
	if err := <-writing; err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]byte{"kept": whole, "replaced": append([]byte("new "), whole...), "slow": whole} {
		if got, err := b.Get(t.Context(), name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("blob %s: %d bytes, %v", name, len(got), err)
		}
	}
	if after, bytesAfter := left(); after != before+1 || bytesAfter > 2*bytesBefore {
		t.Errorf("chunks of %d blobs with %d bytes, before %d with %d", after, bytesAfter, before, bytesBefore)
	}
}

// TestOrphansAreNotCollectedWhenADescriptionCannotBeRead: what it names is not known.
func TestOrphansAreNotCollectedWhenADescriptionCannotBeRead(t *testing.T) {
	s := startServer(t).open(t, nil)
	b := s.Blobs().(*blobs)
	if err := b.Put(t.Context(), "kept", []byte("blob")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.js.Publish(t.Context(), "$O."+s.cfg.bucket()+".M.odd", []byte("no JSON")); err != nil {
		t.Fatal(err)
	}
	if n, err := b.collectOrphans(t.Context(), func(time.Time, time.Time) bool { return true }); err == nil || n != 0 {
		t.Errorf("collected %d, %v", n, err)
	}
	if data, err := b.Get(t.Context(), "kept"); err != nil || string(data) != "blob" {
		t.Errorf("%q, %v", data, err)
	}
}

// slowly writes half of data, and the rest once it may.
func slowly(data []byte, release <-chan struct{}) func(io.Writer) error {
	return func(out io.Writer) error {
		if _, err := out.Write(data[:len(data)/2]); err != nil {
			return err
		}
		<-release
		_, err := out.Write(data[len(data)/2:])
		return err
	}
}
