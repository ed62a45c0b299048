package queue

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/cenkalti/backoff/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"millwright/events"
	"millwright/services/internal/clock"
	"millwright/services/internal/service"
	"millwright/services/watcher"
)

// SQS is what is asked of SQS; *sqs.Client is one.
type SQS interface {
	GetQueueUrl(ctx context.Context, in *sqs.GetQueueUrlInput, opts ...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error)
	ReceiveMessage(ctx context.Context, in *sqs.ReceiveMessageInput, opts ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error)
	DeleteMessageBatch(ctx context.Context, in *sqs.DeleteMessageBatchInput, opts ...func(*sqs.Options)) (*sqs.DeleteMessageBatchOutput, error)
}

// Emitter takes observations; *watcher.Watcher is one.
type Emitter interface {
	Emit(kind events.Kind, op events.Op, uid, name string, object any) error
	Flush(ctx context.Context) error
	// Epoch that is being published; 0 for none.
	Epoch() uint64
	Polled(kind events.Kind, at time.Time)
}

// Publisher takes KubeEvents; kubeevent.Publisher is one.
type Publisher interface {
	Publish(service.KubeEvent)
}

// Config of a Reader. SQS and Name are required.
type Config struct {
	SQS SQS
	// Name of the queue.
	Name string
	// MayAct says whether this installation may act on the cluster; nil: it may. While it may not, nothing is
	// received.
	MayAct func(ctx context.Context) bool
	// Events are told about Object when the queue cannot be read; nil: nobody is.
	Events Publisher
	Object corev1.ObjectReference

	Clock      func() time.Time
	Logger     zerolog.Logger
	Registerer prometheus.Registerer
	// Wait is how long a call waits for messages, 20 s; Pause the first wait after a failure and while
	// nothing may be received, 1 s.
	Wait, Pause time.Duration
	// Visibility hides a message from others while it is worked on, 20 s (reference: disruption §8).
	Visibility time.Duration
}

const (
	// batch is how many messages SQS gives and deletes at once; workers is how many batches are worked on at
	// the same time.
	batch   = 10
	workers = 4
	// visibility is the default of Config.Visibility.
	visibility = 20 * time.Second
	// lagMax is the age of a message above which people are told that the queue is behind.
	lagMax = time.Minute
	// retryMax bounds the backoff after failures.
	retryMax = time.Minute
	// callTimeout bounds calls that do not wait.
	callTimeout = 10 * time.Second
)

// Reader reads the queue while Run runs.
type Reader struct {
	cfg     Config
	emitter Emitter
	metrics *metrics
	state   state
}

// New returns a Reader that publishes through e. It makes no call.
func New(cfg Config, e Emitter) *Reader {
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.MayAct == nil {
		cfg.MayAct = func(context.Context) bool { return true }
	}
	if cfg.Wait <= 0 {
		cfg.Wait = 20 * time.Second
	}
	if cfg.Visibility <= 0 {
		cfg.Visibility = visibility
	}
	if cfg.Pause <= 0 {
		cfg.Pause = time.Second
	}
	r := &Reader{cfg: cfg, emitter: e, metrics: newMetrics(cfg.Registerer)}
	r.state.reader = r
	return r
}

// Run reads until ctx ends.
func (r *Reader) Run(ctx context.Context) error {
	defer r.metrics.forget()
	retry := backoff.NewExponentialBackOff(backoff.WithInitialInterval(r.cfg.Pause), backoff.WithMaxInterval(max(retryMax, r.cfg.Pause)), backoff.WithMaxElapsedTime(0))
	for {
		err := r.read(ctx, retry.Reset)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		wait := r.cfg.Pause
		if err != nil {
			wait = retry.NextBackOff()
			r.state.failed(err, wait)
		}
		if err := clock.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// read finds the queue and receives until something fails, or nothing may be received.
func (r *Reader) read(ctx context.Context, succeeded func()) error {
	if !r.cfg.MayAct(ctx) {
		return nil
	}
	url, err := r.findQueue(ctx)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	for ctx.Err() == nil && r.cfg.MayAct(ctx) {
		got, serverNow, err := r.receive(ctx, url)
		if err != nil {
			if failed := g.Wait(); failed != nil {
				return failed // which is why receiving ended
			}
			return err
		}
		succeeded()
		r.state.received(got, serverNow)
		if len(got) > 0 {
			g.Go(func() error { return r.handle(ctx, url, got, serverNow) }) // waits while all workers are busy
		}
	}
	return g.Wait()
}

func (r *Reader) findQueue(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	out, err := r.cfg.SQS.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: aws.String(r.cfg.Name)})
	if err != nil {
		return "", fmt.Errorf("find queue %s: %w", r.cfg.Name, err)
	}
	return aws.ToString(out.QueueUrl), nil
}

// receive waits for messages. serverNow is SQS's clock; ours if its answer does not say.
func (r *Reader) receive(ctx context.Context, url string) (got []sqstypes.Message, serverNow time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Wait+callTimeout)
	defer cancel()
	out, err := r.cfg.SQS.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: aws.String(url), MaxNumberOfMessages: batch, MessageSystemAttributeNames: []sqstypes.MessageSystemAttributeName{sqstypes.MessageSystemAttributeNameSentTimestamp},
		VisibilityTimeout: int32(r.cfg.Visibility / time.Second),
		WaitTimeSeconds:   int32(r.cfg.Wait / time.Second),
	})
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("receive from queue %s: %w", r.cfg.Name, err)
	}
	serverNow = r.cfg.Clock()
	if at, ok := awsmiddleware.GetServerTime(out.ResultMetadata); ok {
		serverNow = at
	}
	return out.Messages, serverNow, nil
}

// handle publishes what a batch says, and deletes it once that is stored. What the stream does not take stays
// in the queue.
func (r *Reader) handle(ctx context.Context, url string, got []sqstypes.Message, serverNow time.Time) error {
	var done []sqstypes.Message
	said, epoch := false, r.emitter.Epoch()
	for _, m := range got {
		kind, about, err := parse(aws.ToString(m.Body))
		if err != nil {
			r.metrics.unparsable.Inc()
			r.cfg.Logger.Error().Err(err).Str("message_id", aws.ToString(m.MessageId)).Str("body", cut(aws.ToString(m.Body), bodyMax)).
				Msg("failed parsing interruption message")
		}
		r.metrics.received.WithLabelValues(kind).Inc()
		published, err := r.publish(about, serverNow)
		if err != nil {
			return err // it is received again, by whoever leads then
		}
		said = said || published
		done = append(done, m)
	}
	if said {
		if err := r.emitter.Flush(ctx); err != nil {
			return fmt.Errorf("store interruptions: %w", err)
		}
		if now := r.emitter.Epoch(); now != epoch || epoch == 0 {
			return fmt.Errorf("store interruptions: epoch %d ended: %w", epoch, watcher.ErrNoEpoch) // with what was on its way
		}
		r.emitter.Polled(events.KindInterruption, r.cfg.Clock())
	}
	return r.delete(ctx, url, done)
}

func (r *Reader) publish(about []events.Interruption, serverNow time.Time) (said bool, err error) {
	for i := range about {
		o := &about[i]
		age := receive(o, serverNow, r.cfg.Clock())
		if i == 0 {
			r.metrics.latency.Observe(age.Seconds())
		}
		if err := r.emitter.Emit(events.KindInterruption, events.OpUpsert, o.InstanceID, o.InstanceID, o); err != nil {
			return false, fmt.Errorf("publish interruption of %s: %w", o.InstanceID, err)
		}
		said = true
	}
	return said, nil
}

// delete takes messages from the queue. One that is not deleted is received again, and says the same again.
func (r *Reader) delete(ctx context.Context, url string, done []sqstypes.Message) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	in := &sqs.DeleteMessageBatchInput{QueueUrl: aws.String(url)}
	for i, m := range done {
		in.Entries = append(in.Entries, sqstypes.DeleteMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), ReceiptHandle: m.ReceiptHandle})
	}
	out, err := r.cfg.SQS.DeleteMessageBatch(ctx, in)
	if err != nil {
		return fmt.Errorf("delete messages of queue %s: %w", r.cfg.Name, err)
	}
	r.metrics.deleted.Add(float64(len(out.Successful)))
	for _, f := range out.Failed {
		r.cfg.Logger.Warn().Str("code", aws.ToString(f.Code)).Str("error", aws.ToString(f.Message)).Msg("interruption message not deleted")
	}
	return nil
}
