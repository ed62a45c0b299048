package wire

import (
	"bytes"
	"cmp"
	"encoding/json"
	"encoding/xml"
	"errors"
	"net/http"
	"strconv"
	"time"
)

// WriteResult writes the answer to a call in the protocol of its service.
func WriteResult(w http.ResponseWriter, c *Call, result any) error {
	if !c.xml() {
		return writeJSON(w, c, http.StatusOK, result)
	}
	var buf bytes.Buffer
	enc := xml.NewEncoder(&buf)
	root := xml.StartElement{Name: xml.Name{Local: c.Action + "Response"}}
	if c.Service == "ec2" {
		root.Attr = []xml.Attr{{Name: xml.Name{Local: "xmlns"}, Value: "http://ec2.amazonaws.com/doc/2016-11-15/"}}
		if err := enc.EncodeElement(result, root); err != nil {
			return err
		}
	} else {
		inner := xml.StartElement{Name: xml.Name{Local: c.Action + "Result"}}
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
// request's body makes the AWS SDK close that body under the writer, whose error then closes the connection:
// a long answer is cut off, and the SDK retries after a pause. On the loopback device this happens now and
// then, so long answers are delayed a little.
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
func (c *Call) xml() bool { return c.Service == "ec2" || c.Service == "iam" || c.Service == "sts" }

type xmlError struct {
	Type    string `xml:"Type,omitempty"`
	Code    string `xml:"Code"`
	Message string `xml:"Message"`
}

// WriteError writes a refusal in the protocol of the call's service.
func WriteError(w http.ResponseWriter, c *Call, e *Error) {
	if !c.xml() {
		writeJSONError(w, c, e)
		return
	}
	var body any
	if c.Service == "ec2" {
		body = struct {
			XMLName xml.Name   `xml:"Response"`
			Errors  []xmlError `xml:"Errors>Error"`
			ID      string     `xml:"RequestID"`
		}{Errors: []xmlError{{Code: e.Code, Message: e.Message}}, ID: c.ID}
	} else {
		body = struct {
			XMLName xml.Name `xml:"ErrorResponse"`
			Error   xmlError `xml:"Error"`
			ID      string   `xml:"RequestId"`
		}{Error: xmlError{Type: "Sender", Code: e.Code, Message: e.Message}, ID: c.ID}
	}
	data, _ := xml.Marshal(body)
	send(w, e.Status, "text/xml;charset=UTF-8", data)
}

func writeJSONError(w http.ResponseWriter, c *Call, e *Error) {
	w.Header().Set("X-Amzn-Errortype", e.Code)
	if c.Service == "sqs" && e.Code == "QueueDoesNotExist" {
		w.Header().Set("X-Amzn-Query-Error", "AWS.SimpleQueueService.NonExistentQueue;Sender")
	}
	writeJSON(w, c, e.Status, map[string]string{"__type": e.Code, "message": e.Message})
}

func writeJSON(w http.ResponseWriter, c *Call, status int, body any) error {
	contentType := map[string]string{"sqs": "application/x-amz-json-1.0", "eks": "application/json", "arc-zonal-shift": "application/json"}[c.Service]
	if body == nil {
		body = struct{}{}
	}
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return send(w, status, cmp.Or(contentType, "application/x-amz-json-1.1"), data)
}
