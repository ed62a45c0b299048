package queue

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
	corev1 "k8s.io/api/core/v1"

	"millwright/services/internal/service"
	"millwright/services/watcher"
)

// Reasons for which the queue cannot be read.
const (
	reasonMissing   = "no_queue"
	reasonDenied    = "denied"
	reasonThrottled = "throttled"
	reasonOther     = "error"
	// reasonStream: the queue answers, but the stream of observations takes nothing.
	reasonStream = "no_stream"
)

// tellAfter is how long the queue cannot be read by any other reason than that it is missing or forbidden,
// before people are told.
const tellAfter = time.Minute

// state of the queue, as people are told of it.
type state struct {
	reader *Reader
	mu     sync.Mutex
	// since is when reading began to fail; zero while it does not. told: people were told.
	since time.Time
	told  bool
}

// reasonOf classifies an error of SQS.
func reasonOf(err error) string {
	var missing *sqstypes.QueueDoesNotExist
	var api smithy.APIError
	switch {
	case errors.Is(err, watcher.ErrNoEpoch):
		return reasonStream
	case errors.As(err, &missing):
		return reasonMissing
	case !errors.As(err, &api):
		return reasonOther
	}
	switch api.ErrorCode() {
	case "QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue":
		return reasonMissing
	case "AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "InvalidClientTokenId", "UnrecognizedClientException",
		"ExpiredToken", "ExpiredTokenException", "SignatureDoesNotMatch", "KMS.AccessDeniedException", "KmsAccessDenied":
		return reasonDenied
	case "ThrottlingException", "Throttling", "RequestThrottled", "OverLimit":
		return reasonThrottled
	}
	return reasonOther
}

// failed takes note of a failure.
func (s *state) failed(err error, retryIn time.Duration) {
	r, reason := s.reader, reasonOf(err)
	r.metrics.failures.WithLabelValues(reason).Inc()
	r.metrics.readable.Set(0)
	r.cfg.Logger.Warn().Err(err).Str("queue", r.cfg.Name).Str("reason", reason).Dur("retry_in", retryIn).Msg("interruption queue not read")
	now := r.cfg.Clock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.since.IsZero() {
		s.since = now
	}
	if s.told || reason != reasonMissing && reason != reasonDenied && now.Sub(s.since) < tellAfter {
		return
	}
	s.told = true
	s.publishEvent(corev1.EventTypeWarning, "InterruptionQueueUnavailable", fmt.Sprintf("Interruptions are not seen: queue %s cannot be read (%s)", r.cfg.Name, reason))
}

// received takes note that SQS answered.
func (s *state) received(got []sqstypes.Message, serverNow time.Time) {
	r := s.reader
	r.metrics.readable.Set(1)
	r.metrics.lastReceive.Set(float64(r.cfg.Clock().Unix()))
	oldest := time.Duration(0)
	for _, m := range got {
		if ms, ok := sentAt(m); ok {
			oldest = max(oldest, serverNow.Sub(ms))
		}
	}
	r.metrics.oldest.Set(oldest.Seconds())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.told {
		s.publishEvent(corev1.EventTypeNormal, "InterruptionQueueAvailable", fmt.Sprintf("Queue %s is read again", r.cfg.Name))
	}
	s.since, s.told = time.Time{}, false
	if oldest > lagMax {
		s.publishEvent(corev1.EventTypeWarning, "InterruptionQueueLagging", fmt.Sprintf("A message of queue %s was received only after more than %s", r.cfg.Name, lagMax))
	}
}

func (s *state) publishEvent(kind, reason, message string) {
	if s.reader.cfg.Events != nil {
		s.reader.cfg.Events.Publish(service.KubeEvent{Object: s.reader.cfg.Object, Type: kind, Reason: reason, Message: message})
	}
}

// sentAt is when SQS got a message.
func sentAt(m sqstypes.Message) (time.Time, bool) {
	text, ok := m.Attributes[string(sqstypes.MessageSystemAttributeNameSentTimestamp)]
	if !ok {
		return time.Time{}, false
	}
	var ms int64
	if _, err := fmt.Sscanf(aws.ToString(&text), "%d", &ms); err != nil {
		return time.Time{}, false
	}
	return time.UnixMilli(ms), true
}
