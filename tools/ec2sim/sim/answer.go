package sim

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"net/http"
	"strconv"
	"time"
)

// answer writes a result or an error in the protocol of the service, and counts the call.
func (s *Server) answer(w http.ResponseWriter, c *call, result any, err error) {
	w.Header().Set("X-Amzn-Requestid", c.id)
	var refusal *Error
	if err != nil && !errors.As(err, &refusal) {
		refusal = &Error{Status: http.StatusInternalServerError, Code: "InternalError", Message: err.Error()}
	}
	if refusal != nil {
		s.count(c, refusal.Code)
		s.cfg.Log.Debug().Str("service", c.service).Str("action", c.action).Str("code", refusal.Code).
			Str("message", refusal.Message).Msg("refused call")
		writeError(w, c, refusal)
		return
	}
	s.count(c, "ok")
	s.cfg.Log.Debug().Str("service", c.service).Str("action", c.action).Msg("answered call")
	if err := writeResult(w, c, result); err != nil {
		s.cfg.Log.Error().Err(err).Str("action", c.action).Msg("could not write answer")
	}
}

func writeResult(w http.ResponseWriter, c *call, result any) error {
	if !c.xml() {
		return writeJSON(w, c, http.StatusOK, result)
	}
	var buf bytes.Buffer
	enc := xml.NewEncoder(&buf)
	root := xml.StartElement{Name: xml.Name{Local: c.action + "Response"}}
	if c.service == "ec2" {
		root.Attr = []xml.Attr{{Name: xml.Name{Local: "xmlns"}, Value: "http://ec2.amazonaws.com/doc/2016-11-15/"}}
		if err := enc.EncodeElement(result, root); err != nil {
			return err
		}
	} else {
		inner := xml.StartElement{Name: xml.Name{Local: c.action + "Result"}}
		err := errors.Join(enc.EncodeToken(root), enc.EncodeElement(result, inner), enc.EncodeToken(root.End()), enc.Flush())
		if err != nil {
			return err
		}
	}
	return send(w, http.StatusOK, "text/xml;charset=UTF-8", buf.Bytes())
}

const (
	// atOnce is what a client reads together with the header.
	atOnce = 3 << 10
	// settleTime is how long a longer answer waits.
	settleTime = 3 * time.Millisecond
)

// send writes a whole answer. An answer that comes before the client's writer has looked for the end of the
// request's body makes the AWS SDK close that body under the writer, whose error then closes the connection: a
// long answer is cut off, and the SDK retries after a pause. On the loopback device this happens now and then, so
// long answers wait a moment.
func send(w http.ResponseWriter, status int, contentType string, body []byte) error {
	if _, socket := w.(http.Hijacker); socket && len(body) > atOnce {
		time.Sleep(settleTime)
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, err := w.Write(body)
	return err
}

// xml reports whether the service speaks the query protocol.
func (c *call) xml() bool { return c.service == "ec2" || c.service == "iam" || c.service == "sts" }

type xmlError struct {
	Type    string `xml:"Type,omitempty"`
	Code    string `xml:"Code"`
	Message string `xml:"Message"`
}

func writeError(w http.ResponseWriter, c *call, e *Error) {
	if !c.xml() {
		writeJSONError(w, c, e)
		return
	}
	var body any
	if c.service == "ec2" {
		body = struct {
			XMLName xml.Name   `xml:"Response"`
			Errors  []xmlError `xml:"Errors>Error"`
			ID      string     `xml:"RequestID"`
		}{Errors: []xmlError{{Code: e.Code, Message: e.Message}}, ID: c.id}
	} else {
		body = struct {
			XMLName xml.Name `xml:"ErrorResponse"`
			Error   xmlError `xml:"Error"`
			ID      string   `xml:"RequestId"`
		}{Error: xmlError{Type: "Sender", Code: e.Code, Message: e.Message}, ID: c.id}
	}
	data, _ := xml.Marshal(body)
	send(w, e.Status, "text/xml;charset=UTF-8", data)
}

func writeJSONError(w http.ResponseWriter, c *call, e *Error) {
	w.Header().Set("X-Amzn-Errortype", e.Code)
	if c.service == "sqs" && e.Code == "QueueDoesNotExist" {
		w.Header().Set("X-Amzn-Query-Error", "AWS.SimpleQueueService.NonExistentQueue;Sender")
	}
	writeJSON(w, c, e.Status, map[string]string{"__type": e.Code, "message": e.Message})
}

func writeJSON(w http.ResponseWriter, c *call, status int, body any) error {
	contentType := map[string]string{"sqs": "application/x-amz-json-1.0", "eks": "application/json"}[c.service]
	if body == nil {
		body = struct{}{}
	}
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return send(w, status, orElse(contentType, "application/x-amz-json-1.1"), data)
}

// newID returns an id such as i-0123456789abcdef0.
func newID(prefix string) string { return prefix + "-0" + randomHex(8) }

func newRequestID() string {
	h := randomHex(16)
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

func randomHex(bytes int) string {
	buf := make([]byte, bytes)
	rand.Read(buf)
	return hex.EncodeToString(buf)
}

// ptr is a pointer to a value, for XML fields that are absent when unknown.
func ptr[T any](v T) *T { return &v }
