package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awscredentials "github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"

	"millwright/planner/ledger"
	"millwright/store/audit/line"
	"millwright/tools/clustertest"
	"millwright/tools/stack"
)

// objectStore is bin/s3server, which can be killed and started again.
type objectStore struct {
	*testing.T
	dir, address string
	client       *s3.Client
	cmd          *exec.Cmd
}

func newObjectStore(t *testing.T) *objectStore {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &objectStore{T: t, dir: t.TempDir(), address: l.Addr().String()}
	_ = l.Close()
	s.client = s3.New(s3.Options{Region: stack.Region, BaseEndpoint: aws.String("http://" + s.address), UsePathStyle: true,
		Credentials: awscredentials.NewStaticCredentialsProvider("local", "local", "")})
	s.start()
	t.Cleanup(s.kill)
	if _, err := s.client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String("logs")}); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *objectStore) start() {
	s.Helper()
	s.cmd = exec.Command(filepath.Join(clustertest.Root(), "bin", "s3server"), "--dir", s.dir, "--listen", s.address)
	s.cmd.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID=local", "AWS_SECRET_ACCESS_KEY=local", "AWS_REGION="+stack.Region)
	if err := s.cmd.Start(); err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	for {
		if _, err := s.client.ListBuckets(ctx, &s3.ListBucketsInput{}); err == nil {
			return
		} else if ctx.Err() != nil {
			s.Fatalf("s3server does not answer: %v", err)
		}
	}
}

func (s *objectStore) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// segments are the objects of the archive.
func (s *objectStore) segments() int {
	list, err := s.client.ListObjectsV2(s.Context(), &s3.ListObjectsV2Input{Bucket: aws.String("logs"), Prefix: aws.String("e2e/")})
	if err != nil {
		return -1
	}
	n := 0
	for _, o := range list.Contents {
		if strings.HasSuffix(*o.Key, ".segment") {
			n++
		}
	}
	return n
}

// exported are the records that came as CloudEvents, by number; times counts all that came.
type exported struct {
	mu    sync.Mutex
	ids   map[string]string
	times int
}

func (x *exported) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	e, err := cehttp.NewEventFromHTTPRequest(q)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ids[strings.Split(e.ID(), ".")[1]] = e.ID()
	x.times++
}

func (x *exported) has(records []string) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, seq := range records {
		if x.ids[seq] == "" {
			return "record " + seq + " has not come"
		}
	}
	if len(x.ids) != len(records) {
		return fmt.Sprintf("%d records came, and there are %d", len(x.ids), len(records))
	}
	return ""
}

// A whole process keeps its archive in a bucket, and exports what it records, while the store dies and
// comes back, and while it is killed itself: everything can be read, proven and replayed afterwards, and
// every record has arrived.
func TestAProcessOnABucketThatExportsWhatItRecords(t *testing.T) {
	objects, events := newObjectStore(t), &exported{ids: map[string]string{}}
	receiver := httptest.NewServer(events)
	t.Cleanup(receiver.Close)
	location := "s3://logs/e2e?pathStyle=true&endpoint=http://" + objects.address + "&cache=" + t.TempDir()
	e := start(t, func(o *stack.Options) {
		o.MillwrightArgs = append(o.MillwrightArgs, "--archive-dir", location, "--checkpoint-records", "5", "--log-retention-records", "5",
			"--export-cloudevents-url", receiver.URL, "--export-from", "beginning")
	})
	e.apply(defaultClass)
	e.apply(defaultPool)
	e.deploy("web", 2, "3", "1Gi", apart("web"))
	e.running("web", 2)
	first := e.nodes()[0].Name
	before := 0
	grow := func() {
		e.Helper()
		e.eventually("another segment in the bucket", func() string {
			if n := objects.segments(); n <= before {
				return fmt.Sprintf("%d segments, %d before", n, before)
			}
			return ""
		})
		before = objects.segments()
	}
	e.scale("web", 0)
	e.clean()
	grow()
	objects.kill()
	e.goesOn("web", 3) // decisions do not wait for the store
	e.restart("millwright")
	e.scale("web", 0)
	e.clean()
	objects.start()
	grow()

	read := func(args ...string) string {
		e.Helper()
		cmd := exec.CommandContext(e.Context(), filepath.Join(e.bin, "millctl"), append(append(args, e.stack.LogFlags()...), "--archive-dir", location)...)
		cmd.Env = append(os.Environ(), e.stack.Env()...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			e.Fatalf("millctl %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	read("verify")
	if story := read("why", "node", first); !strings.Contains(story, first) || !strings.Contains(story, "launch") {
		e.Errorf("why node %s:\n%s", first, story)
	}
	if m := replayed.FindStringSubmatch(read("replay")); m == nil || m[1] == "0" || m[2] != "0" {
		e.Errorf("replay: %v", m)
	}
	own := []string{ledger.KindLedgerCheckpoint.String(), ledger.KindSegmentArchived.String(), ledger.KindAggregatesRetired.String()}
	e.eventually("every record has arrived", func() string {
		var records []string
		lines := bufio.NewScanner(strings.NewReader(read("log", "-o", "json")))
		lines.Buffer(nil, 64<<20)
		for lines.Scan() {
			var l line.Line
			if json.Unmarshal(lines.Bytes(), &l) == nil && l.Seq > 0 && !slices.Contains(own, l.Kind) {
				records = append(records, fmt.Sprint(l.Seq))
			}
		}
		return events.has(records)
	})
	t.Logf("%d segments; %d records exported, in %d events", objects.segments(), len(events.ids), events.times)
}
