// Package sqs is the interruption queue.
package sqs

import (
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"millwright/tools/ec2sim/sim/account"
	"millwright/tools/ec2sim/sim/wire"
)

// Queue is the interruption queue, named like the cluster.
type Queue struct {
	*account.Account
	messages []*message
	// Announce puts what has changed since the last call on the queue. It is called under the lock.
	Announce func()
}

// New returns an empty queue.
func New(a *account.Account) *Queue { return &Queue{Account: a} }

type message struct {
	ID        string    `json:"id"`
	Body      string    `json:"body"`
	Sent      time.Time `json:"sent"`
	VisibleAt time.Time `json:"visibleAt"`
	Receipt   string    `json:"receipt,omitempty"`
	Received  int       `json:"received"`
}

// retention of messages on the queue, as the CloudFormation template sets it.
const retention = 300 * time.Second

// Operations are the calls that do not wait, by action.
func (s *Queue) Operations() map[string]wire.Operation {
	return map[string]wire.Operation{
		"GetQueueUrl":        s.getQueueURL,
		"SendMessage":        s.sendMessage,
		"DeleteMessage":      s.deleteMessage,
		"DeleteMessageBatch": s.deleteMessageBatch,
	}
}

func noQueue() *wire.Error {
	return wire.Refuse("QueueDoesNotExist", "The specified queue does not exist.")
}

func (s *Queue) queueURL() string {
	return "https://sqs." + s.Region.Name + ".amazonaws.com/" + s.Cfg.AccountID + "/" + s.Cfg.ClusterName
}

func (s *Queue) getQueueURL(c *wire.Call) (any, error) {
	var input struct{ QueueName string }
	if err := wire.ReadJSON(c, &input); err != nil {
		return nil, err
	}
	if input.QueueName != s.Cfg.ClusterName {
		return nil, noQueue()
	}
	return map[string]string{"QueueUrl": s.queueURL()}, nil
}

// checkQueue compares the queue's name; the host in the URL does not matter.
func (s *Queue) checkQueue(url string) *wire.Error {
	if wire.LastSegment(url) != s.Cfg.ClusterName {
		return noQueue()
	}
	return nil
}

func (s *Queue) sendMessage(c *wire.Call) (any, error) {
	var input struct{ QueueUrl, MessageBody string }
	if err := wire.ReadJSON(c, &input); err != nil {
		return nil, err
	}
	if err := s.checkQueue(input.QueueUrl); err != nil {
		return nil, err
	}
	if input.MessageBody == "" {
		return nil, wire.Refuse("MissingParameter", "The request must contain the parameter MessageBody.")
	}
	m := s.Enqueue(input.MessageBody)
	return map[string]string{"MessageId": m.ID, "MD5OfMessageBody": md5Hex(m.Body)}, nil
}

// Enqueue sends a message. The caller holds the lock.
func (s *Queue) Enqueue(body string) *message {
	now := s.Now()
	m := &message{ID: wire.NewRequestID(), Body: body, Sent: now, VisibleAt: now}
	s.messages = append(s.messages, m)
	s.Keep("message", m.ID, m)
	s.Notify()
	return m
}

type receiveInput struct {
	QueueUrl            string
	MaxNumberOfMessages int
	VisibilityTimeout   *int
	WaitTimeSeconds     int
}

// pollStep is how often a waiting receiver looks for messages that have become due.
const pollStep = 200 * time.Millisecond

// ReceiveMessage waits for messages up to WaitTimeSeconds.
func (s *Queue) ReceiveMessage(c *wire.Call) (any, error) {
	var input receiveInput
	if err := wire.ReadJSON(c, &input); err != nil {
		return nil, err
	}
	if input.MaxNumberOfMessages < 0 || input.MaxNumberOfMessages > 10 || input.WaitTimeSeconds < 0 || input.WaitTimeSeconds > 20 {
		return nil, wire.Refuse("InvalidParameterValue", "MaxNumberOfMessages must be 1 to 10 and WaitTimeSeconds 0 to 20.")
	}
	if err := s.checkQueue(input.QueueUrl); err != nil {
		return nil, err
	}
	deadline := s.Now().Add(time.Duration(input.WaitTimeSeconds) * time.Second)
	for {
		if got := s.takeMessages(&input); len(got) > 0 {
			return map[string]any{"Messages": got}, nil
		}
		if !s.Now().Before(deadline) || s.Cfg.Sleep(c.Ctx, pollStep) != nil {
			return struct{}{}, nil
		}
	}
}

func (s *Queue) takeMessages(input *receiveInput) []map[string]any {
	s.Lock()
	defer s.Unlock()
	s.Announce()
	now, out := s.Now(), []map[string]any{}
	s.dropOldMessages(now)
	hidden := 30 * time.Second
	if input.VisibilityTimeout != nil {
		hidden = time.Duration(*input.VisibilityTimeout) * time.Second
	}
	for _, m := range s.messages {
		if m.VisibleAt.After(now) || len(out) == max(1, input.MaxNumberOfMessages) {
			continue
		}
		m.VisibleAt, m.Receipt = now.Add(hidden), wire.RandomHex(16)
		m.Received++
		s.Keep("message", m.ID, m)
		out = append(out, map[string]any{"MessageId": m.ID, "ReceiptHandle": m.Receipt, "Body": m.Body, "MD5OfBody": md5Hex(m.Body),
			"Attributes": map[string]string{"SentTimestamp": strconv.FormatInt(m.Sent.UnixMilli(), 10),
				"ApproximateReceiveCount": strconv.Itoa(m.Received)}})
	}
	return out
}

func (s *Queue) dropOldMessages(now time.Time) {
	s.messages = slices.DeleteFunc(s.messages, func(m *message) bool {
		old := now.Sub(m.Sent) > retention
		if old {
			s.Drop("message", m.ID)
		}
		return old
	})
}

func (s *Queue) deleteMessage(c *wire.Call) (any, error) {
	var input struct{ QueueUrl, ReceiptHandle string }
	if err := wire.ReadJSON(c, &input); err != nil {
		return nil, err
	}
	if err := s.checkQueue(input.QueueUrl); err != nil {
		return nil, err
	}
	if err := s.deleteByReceipt(input.ReceiptHandle); err != nil {
		return nil, err
	}
	return struct{}{}, nil
}

// batchMax is how many entries a batch may have.
const batchMax = 10

// deleteMessageBatch answers for each entry: some may fail while others succeed.
func (s *Queue) deleteMessageBatch(c *wire.Call) (any, error) {
	var input struct {
		QueueUrl string
		Entries  []struct{ Id, ReceiptHandle string }
	}
	if err := wire.ReadJSON(c, &input); err != nil {
		return nil, err
	}
	if err := s.checkQueue(input.QueueUrl); err != nil {
		return nil, err
	}
	switch n := len(input.Entries); {
	case n == 0:
		return nil, wire.Refuse("EmptyBatchRequest", "There should be at least one DeleteMessageBatchRequestEntry in the request.")
	case n > batchMax:
		return nil, wire.Refuse("TooManyEntriesInBatchRequest", "Maximum number of entries per request are 10. You have sent %d.", n)
	}
	done, failed, ids := []map[string]any{}, []map[string]any{}, map[string]bool{}
	for _, e := range input.Entries {
		if ids[e.Id] {
			return nil, wire.Refuse("BatchEntryIdsNotDistinct", "Id %s repeated.", e.Id)
		}
		ids[e.Id] = true
		if err := s.deleteByReceipt(e.ReceiptHandle); err != nil {
			failed = append(failed, map[string]any{"Id": e.Id, "Code": err.Code, "Message": err.Message, "SenderFault": true})
			continue
		}
		done = append(done, map[string]any{"Id": e.Id})
	}
	return map[string]any{"Successful": done, "Failed": failed}, nil
}

// deleteByReceipt deletes the message that was received with a handle; one that was received again since, or
// is gone, is no error.
func (s *Queue) deleteByReceipt(handle string) *wire.Error {
	if handle == "" || strings.Trim(handle, "0123456789abcdef") != "" {
		return wire.Refuse("ReceiptHandleIsInvalid", "The input receipt handle is invalid.")
	}
	s.messages = slices.DeleteFunc(s.messages, func(m *message) bool {
		if m.Receipt == handle {
			s.Drop("message", m.ID)
			return true
		}
		return false
	})
	return nil
}

// Event is an EventBridge event as the queue's rules pass it on.
func (s *Queue) Event(source, detailType string, resources []string, detail map[string]any) string {
	data, _ := json.Marshal(map[string]any{
		"version": "0", "id": wire.NewRequestID(), "detail-type": detailType, "source": source, "account": s.Cfg.AccountID,
		"time": s.Now().UTC().Format(time.RFC3339), "region": s.Region.Name, "resources": resources, "detail": detail,
	})
	return string(data)
}

func md5Hex(text string) string {
	sum := md5.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Load puts a message of the journal back.
func (s *Queue) Load(l account.Entity) error { return account.LoadOnto(l, &s.messages) }
