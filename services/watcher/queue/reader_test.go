package queue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"

	"millwright/events"
	"millwright/services/internal/service"
	"millwright/services/watcher"
	"millwright/tools/ec2sim/sim"
	"millwright/tools/ec2sim/simclient"
)

// bus takes what is emitted. Nothing is stored before Flush.
type bus struct {
	mu      sync.Mutex
	epoch   uint64
	onway   []events.Interruption
	stored  []events.Interruption
	flushes int
	// refuse and lose are how many emissions fail, and how many flushes are followed by the end of the epoch.
	refuse, lose int
}

func (b *bus) Emit(_ events.Kind, _ events.Op, _, _ string, object any) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.refuse > 0 {
		b.refuse--
		return watcher.ErrNoEpoch
	}
	b.onway = append(b.onway, *object.(*events.Interruption))
	return nil
}

func (b *bus) Flush(context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.flushes++
	if b.lose > 0 { // the epoch ended, and what was on its way is lost; the next one has nothing to flush
		b.lose, b.onway = b.lose-1, nil
		b.epoch++
		return nil
	}
	b.stored, b.onway = append(b.stored, b.onway...), nil
	return nil
}

func (b *bus) Epoch() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.epoch
}

func (b *bus) Polled(events.Kind, time.Time) {}

func (b *bus) ids() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	ids := map[string]int{}
	for _, i := range b.stored {
		ids[i.MessageID]++
	}
	return ids
}

type told struct {
	mu     sync.Mutex
	events []string
}

func (t *told) Publish(e service.KubeEvent) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events = append(t.events, e.Reason)
}

func (t *told) all() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.events, " ")
}

type rig struct {
	t      *testing.T
	sim    *sim.Server
	ec2    *simclient.Client
	client *sqs.Client
	url    *string
	bus    *bus
	told   *told
	reader *Reader
}

func newRig(t *testing.T, change func(*Config)) *rig {
	r := &rig{t: t, sim: sim.New(sim.Config{ClusterName: "blue", Region: "us-west-2", Settings: sim.DefaultSettings()}), bus: &bus{epoch: 1}, told: &told{}}
	web := &http.Client{Transport: r.sim.Transport()}
	sdk := aws.Config{Region: "us-west-2", BaseEndpoint: aws.String("http://aws.simulated"), HTTPClient: web,
		Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""), Retryer: func() aws.Retryer { return aws.NopRetryer{} }}
	r.client = sqs.NewFromConfig(sdk)
	r.ec2 = &simclient.Client{URL: "http://aws.simulated", HTTP: web}
	out, err := r.client.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String("blue")})
	if err != nil {
		t.Fatal(err)
	}
	r.url = out.QueueUrl
	cfg := Config{SQS: r.client, Name: "blue", Events: r.told, Logger: zerolog.Nop(), Wait: time.Second, Pause: 10 * time.Millisecond, Visibility: time.Second}
	if change != nil {
		change(&cfg)
	}
	r.reader = New(cfg, r.bus)
	return r
}

// run starts the reader, which ends with the test.
func (r *rig) run() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.reader.Run(ctx) }()
	r.t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			r.t.Errorf("reader ended: %v", err)
		}
	})
}

func (r *rig) send(bodies ...string) {
	r.t.Helper()
	for _, body := range bodies {
		if _, err := r.client.SendMessage(r.t.Context(), &sqs.SendMessageInput{QueueUrl: r.url, MessageBody: aws.String(body)}); err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *rig) until(what string, ok func() bool) {
	r.t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("%s: not within 30 s; stored %v, told %s", what, r.bus.ids(), r.told.all())
		}
	}
}

// deleted is how many messages were deleted.
func (r *rig) deleted() float64 { return testutil.ToFloat64(r.reader.metrics.deleted) }

func event(id, source, detailType, detail string) string {
	return fmt.Sprintf(`{"version":"0","id":%q,"detail-type":%q,"source":%q,"account":"1","time":%q,"region":"us-west-2","resources":[],"detail":%s}`,
		id, detailType, source, time.Now().UTC().Format(time.RFC3339), detail)
}

func spotWarningOf(id string) string {
	return event(id, "aws.ec2", spotWarning, `{"instance-id":"i-0123456789abcdef0","instance-action":"terminate"}`)
}

// A reader that stands by has nothing to say of the queue, whatever it saw while it led.
func TestAReaderThatEndsServesNothingOfTheQueue(t *testing.T) {
	r := newRig(t, nil)
	r.send(spotWarningOf("1"))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.reader.Run(ctx) }()
	r.until("the queue is read", func() bool { return r.deleted() == 1 && testutil.ToFloat64(r.reader.metrics.readable) == 1 })
	cancel()
	<-ended
	if readable, oldest := testutil.ToFloat64(r.reader.metrics.readable), testutil.ToFloat64(r.reader.metrics.oldest); readable != 0 || oldest != 0 {
		t.Errorf("readable %v, age of the oldest message %v", readable, oldest)
	}
}

// What nobody can read and what says nothing is deleted; the rest is stored, then deleted.
func TestEveryMessageIsStoredOrDeleted(t *testing.T) {
	r := newRig(t, nil)
	r.send("}{", "[]", `{"version":"0"}`, event("1", "aws.ec2", spotWarning, `"x"`), event("2", "aws.ec2", spotWarning, `{"instance-id":"i-1; drop"}`),
		event("3", "aws.ec2", stateChange, `{"instance-id":"i-0123456789abcdef0","state":"running"}`), event("4", "aws.s3", "Object Created", `{}`),
		spotWarningOf("5"), event("6", "aws.health", health, `{"service":"EC2","eventTypeCategory":"scheduledChange","affectedEntities":[{"entityValue":"i-01234567"},{"entityValue":"UNKNOWN"},{"entityValue":"i-89abcdefg"}]}`),
		event("7", "aws.health", health, `{"service":"EC2","eventTypeCategory":"scheduledChange","affectedEntities":[{"entityValue":"UNKNOWN"}]}`),
		strings.Replace(spotWarningOf("8"), `"time":"`, `"time":"9999-12-31T23:59:59-01:00","was":"`, 1))
	r.run()
	r.until("all deleted", func() bool { return r.deleted() == 11 })
	if got, want := r.bus.ids(), map[string]int{"5": 1, "6": 2}; !maps.Equal(got, want) {
		t.Errorf("stored %v, want %v", got, want)
	}
	if n := testutil.ToFloat64(r.reader.metrics.unparsable); n != 6 {
		t.Errorf("%v unparsable, want 6", n)
	}
	if n := testutil.ToFloat64(r.reader.metrics.received.WithLabelValues(noOp)); n != 9 {
		t.Errorf("%v of no kind, want 9", n)
	}
}

// Between receipt, publish and deletion anything may be lost: what is deleted was stored.
func TestNothingIsDeletedThatIsNotStored(t *testing.T) {
	r := newRig(t, nil)
	r.bus.refuse, r.bus.lose = 2, 2
	for _, f := range []simclient.Fault{
		{Service: "sqs", Action: "DeleteMessageBatch", Count: 1, Code: "InternalFailure", Status: 500},
		{Service: "sqs", Action: "DeleteMessageBatch", Count: 1, Drop: true, After: true},
		{Service: "sqs", Action: "ReceiveMessage", Count: 1, Drop: true, After: true},
	} {
		if _, err := r.ec2.AddFault(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	ids := map[string]bool{}
	for i := range 25 {
		id := fmt.Sprintf("m%d", i)
		ids[id] = true
		r.send(spotWarningOf(id), spotWarningOf(id)) // at least once
	}
	r.run()
	r.until("all stored", func() bool { return len(r.bus.ids()) == len(ids) })
	r.bus.mu.Lock()
	defer r.bus.mu.Unlock()
	for _, i := range r.bus.stored {
		if left := i.Deadline.Sub(i.ReceivedAt); left <= 0 || left > noticeTime {
			t.Errorf("deadline %s after receipt", left)
		}
	}
}

// A queue that is missing, or forbidden, is reported, and read again once it is there.
func TestTheQueueIsAwayForAWhile(t *testing.T) {
	for code, reason := range map[string]string{"AWS.SimpleQueueService.NonExistentQueue": reasonMissing, "AccessDeniedException": reasonDenied} {
		r := newRig(t, nil)
		if _, err := r.ec2.AddFault(t.Context(), simclient.Fault{Service: "sqs", Action: "ReceiveMessage", Count: 3, Code: code, Status: 400}); err != nil {
			t.Fatal(err)
		}
		r.run()
		r.send(spotWarningOf("1"))
		r.until("stored", func() bool { return r.bus.ids()["1"] == 1 })
		if n := testutil.ToFloat64(r.reader.metrics.failures.WithLabelValues(reason)); n != 3 {
			t.Errorf("%s: %v failures by %s", code, n, reason)
		}
		if got := r.told.all(); got != "InterruptionQueueUnavailable InterruptionQueueAvailable" {
			t.Errorf("%s: told %s", code, got)
		}
	}
}

// Who may not act takes no messages: they are for who drains the nodes.
func TestNothingIsReceivedWhileAnotherMayAct(t *testing.T) {
	var mu sync.Mutex
	may := false
	r := newRig(t, func(c *Config) {
		c.MayAct = func(context.Context) bool { mu.Lock(); defer mu.Unlock(); return may }
	})
	r.run()
	r.send(spotWarningOf("1"))
	time.Sleep(200 * time.Millisecond)
	if n := len(r.bus.ids()); n != 0 {
		t.Fatal("received although another may act")
	}
	mu.Lock()
	may = true
	mu.Unlock()
	r.until("stored", func() bool { return r.bus.ids()["1"] == 1 })
}

// The deadline is told by AWS's clocks for the age and by ours for the rest, so that neither being off moves
// it by more than the transport.
func TestDeadlinesWithClocksThatAreOff(t *testing.T) {
	server := time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)
	cases := map[string]struct {
		written, ours time.Time
		want          time.Duration
	}{
		"at once":                           {server, server, 2 * time.Minute},
		"half a minute old":                 {server.Add(-30 * time.Second), server, 90 * time.Second},
		"our clock an hour ahead":           {server.Add(-30 * time.Second), server.Add(time.Hour), 90 * time.Second},
		"our clock an hour behind":          {server.Add(-30 * time.Second), server.Add(-time.Hour), 90 * time.Second},
		"written in the future":             {server.Add(time.Hour), server, 2 * time.Minute},
		"too late to win anything by force": {server.Add(-2 * time.Minute), server, 0},
	}
	for name, c := range cases {
		i := events.Interruption{MessageKind: events.SpotInterrupted, At: c.written}
		receive(&i, server, c.ours)
		switch {
		case c.want == 0 && !i.Deadline.IsZero(), c.want > 0 && !i.Deadline.Equal(c.ours.Add(c.want)):
			t.Errorf("%s: deadline %s, received at %s", name, i.Deadline, i.ReceivedAt)
		}
	}
}

// Thousands of messages are worked on a batch at a time, and deleted by batches.
func TestThousandsOfMessages(t *testing.T) {
	r := newRig(t, nil)
	const n = 3000
	for i := range n {
		r.send(event(fmt.Sprint(i), "aws.ec2", stateChange, fmt.Sprintf(`{"instance-id":"i-%017x","state":"stopping"}`, i)))
	}
	began := time.Now()
	r.run()
	r.until("all stored", func() bool { return r.deleted() == n })
	t.Logf("%d messages in %s", n, time.Since(began))
	if len(r.bus.ids()) != n {
		t.Errorf("%d stored", len(r.bus.ids()))
	}
}

// A message of AWS Health is about all the instances that it names.
func TestAMessageAboutThousandsOfInstances(t *testing.T) {
	const n = 3000
	var entities []string
	for i := range n {
		entities = append(entities, fmt.Sprintf(`{"entityValue":"i-%017x"}`, i))
	}
	kind, about, err := parse(event("7", "aws.health", health, `{"service":"EC2","eventTypeCategory":"scheduledChange","affectedEntities":[`+strings.Join(entities, ",")+`]}`))
	if kind != events.ScheduledChange || len(about) != n || err != nil {
		t.Errorf("%s about %d of %d instances, %v", kind, len(about), n, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(spotWarningOf("1"))
	f.Add(event("6", "aws.health", health, `{"service":"EC2","eventTypeCategory":"scheduledChange","affectedEntities":[{"entityValue":"i-01234567"}]}`))
	f.Add(`{"version":"0","detail":null}`)
	f.Fuzz(func(t *testing.T, body string) {
		kind, about, err := parse(body)
		if err != nil && (kind != noOp || about != nil) || kind == noOp && len(about) > 0 || kind != noOp && len(about) == 0 {
			t.Fatalf("%s, %d about, %v", kind, len(about), err)
		}
		for _, i := range about {
			if !isInstance(i.InstanceID) || len(i.Body) > bodyMax || len(i.Detail) > detailMax {
				t.Fatalf("%+v", i)
			}
		}
	})
}
