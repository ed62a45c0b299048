package sim

import (
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// queue is the interruption queue, named like the cluster.
type queue struct {
	messages []*message
}

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

var sqsOperations = map[string]operation{
	"GetQueueUrl":   getQueueURL,
	"SendMessage":   sendMessage,
	"DeleteMessage": deleteMessage,
}

func noQueue() *Error { return refuse("QueueDoesNotExist", "The specified queue does not exist.") }

func (s *Server) queueURL() string {
	return "https://sqs." + s.region.Name + ".amazonaws.com/" + s.cfg.AccountID + "/" + s.cfg.ClusterName
}

func getQueueURL(s *Server, c *call) (any, error) {
	var input struct{ QueueName string }
	if err := readJSON(c, &input); err != nil {
		return nil, err
	}
	if input.QueueName != s.cfg.ClusterName {
		return nil, noQueue()
	}
	return map[string]string{"QueueUrl": s.queueURL()}, nil
}

// checkQueue compares the queue's name, whatever host the URL has.
func (s *Server) checkQueue(url string) *Error {
	if lastSegment(url) != s.cfg.ClusterName {
		return noQueue()
	}
	return nil
}

func sendMessage(s *Server, c *call) (any, error) {
	var input struct{ QueueUrl, MessageBody string }
	if err := readJSON(c, &input); err != nil {
		return nil, err
	}
	if err := s.checkQueue(input.QueueUrl); err != nil {
		return nil, err
	}
	if input.MessageBody == "" {
		return nil, refuse("MissingParameter", "The request must contain the parameter MessageBody.")
	}
	m := s.enqueue(input.MessageBody)
	return map[string]string{"MessageId": m.ID, "MD5OfMessageBody": md5Hex(m.Body)}, nil
}

func (s *Server) enqueue(body string) *message {
	now := s.now()
	m := &message{ID: newRequestID(), Body: body, Sent: now, VisibleAt: now}
	s.queue.messages = append(s.queue.messages, m)
	s.keep("message", m.ID, m)
	s.notify()
	return m
}

func md5Hex(text string) string {
	sum := md5.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

type receiveInput struct {
	QueueUrl            string
	MaxNumberOfMessages int
	VisibilityTimeout   *int
	WaitTimeSeconds     int
}

// pollStep is how often a waiting receiver looks for messages that become due by time alone.
const pollStep = 200 * time.Millisecond

// receiveMessage waits for messages up to WaitTimeSeconds.
func (s *Server) receiveMessage(c *call) (any, error) {
	var input receiveInput
	if err := readJSON(c, &input); err != nil {
		return nil, err
	}
	if input.MaxNumberOfMessages < 0 || input.MaxNumberOfMessages > 10 || input.WaitTimeSeconds < 0 || input.WaitTimeSeconds > 20 {
		return nil, refuse("InvalidParameterValue", "MaxNumberOfMessages must be 1 to 10 and WaitTimeSeconds 0 to 20.")
	}
	if err := s.checkQueue(input.QueueUrl); err != nil {
		return nil, err
	}
	deadline := s.now().Add(time.Duration(input.WaitTimeSeconds) * time.Second)
	for {
		if got := s.takeMessages(&input); len(got) > 0 {
			return map[string]any{"Messages": got}, nil
		}
		if !s.now().Before(deadline) || s.cfg.Sleep(c.ctx, pollStep) != nil {
			return struct{}{}, nil
		}
	}
}

func (s *Server) takeMessages(input *receiveInput) []map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.announceStates()
	now, out := s.now(), []map[string]any{}
	s.dropOldMessages(now)
	hidden := 30 * time.Second
	if input.VisibilityTimeout != nil {
		hidden = time.Duration(*input.VisibilityTimeout) * time.Second
	}
	for _, m := range s.queue.messages {
		if m.VisibleAt.After(now) || len(out) == max(1, input.MaxNumberOfMessages) {
			continue
		}
		m.VisibleAt, m.Receipt = now.Add(hidden), randomHex(16)
		m.Received++
		s.keep("message", m.ID, m)
		out = append(out, map[string]any{"MessageId": m.ID, "ReceiptHandle": m.Receipt, "Body": m.Body, "MD5OfBody": md5Hex(m.Body),
			"Attributes": map[string]string{"SentTimestamp": strconv.FormatInt(m.Sent.UnixMilli(), 10),
				"ApproximateReceiveCount": strconv.Itoa(m.Received)}})
	}
	return out
}

func (s *Server) dropOldMessages(now time.Time) {
	s.queue.messages = slices.DeleteFunc(s.queue.messages, func(m *message) bool {
		old := now.Sub(m.Sent) > retention
		if old {
			s.drop("message", m.ID)
		}
		return old
	})
}

func deleteMessage(s *Server, c *call) (any, error) {
	var input struct{ QueueUrl, ReceiptHandle string }
	if err := readJSON(c, &input); err != nil {
		return nil, err
	}
	if err := s.checkQueue(input.QueueUrl); err != nil {
		return nil, err
	}
	if input.ReceiptHandle == "" || strings.Trim(input.ReceiptHandle, "0123456789abcdef") != "" {
		return nil, refuse("ReceiptHandleIsInvalid", "The input receipt handle is invalid.")
	}
	s.queue.messages = slices.DeleteFunc(s.queue.messages, func(m *message) bool {
		if m.Receipt == input.ReceiptHandle {
			s.drop("message", m.ID)
			return true
		}
		return false
	})
	return struct{}{}, nil
}

// event is an EventBridge event as the queue's rules pass it on.
func (s *Server) event(source, detailType string, resources []string, detail map[string]any) string {
	data, _ := json.Marshal(map[string]any{
		"version": "0", "id": newRequestID(), "detail-type": detailType, "source": source, "account": s.cfg.AccountID,
		"time": s.now().UTC().Format(time.RFC3339), "region": s.region.Name, "resources": resources, "detail": detail,
	})
	return string(data)
}

func (s *Server) instanceARN(in *Instance) string {
	return fmt.Sprintf("arn:aws:ec2:%s:%s:instance/%s", in.Zone, s.cfg.AccountID, in.ID)
}

// announceStates puts state-change notifications on the queue for instances whose state has changed since
// the last look.
func (s *Server) announceStates() {
	now := s.now()
	for _, in := range s.instances.all() {
		state := in.State(now)
		if state == in.announced {
			continue
		}
		in.announced = state
		s.enqueue(s.event("aws.ec2", "EC2 Instance State-change Notification", []string{s.instanceARN(in)},
			map[string]any{"instance-id": in.ID, "state": state}))
	}
}
