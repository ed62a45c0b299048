package api

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
)

// errTooLarge: the answer is longer than is sent.
var errTooLarge = errors.New("the answer is too long: ask for less at a time")

// compressFrom is the length from which an answer is compressed.
const compressFrom = 1 << 10

// send answers with a result as JSON. It is not sent again to who has it already.
func send(w http.ResponseWriter, r *http.Request, result any) {
	b, err := json.Marshal(result)
	switch {
	case err != nil:
		problem(w, http.StatusInternalServerError, "encode the answer: "+err.Error())
	case len(b) > answerMax:
		problem(w, http.StatusRequestEntityTooLarge, errTooLarge.Error())
	default:
		w.Header().Set("Content-Type", "application/json")
		Deliver(w, r, append(b, '\n'))
	}
}

// Deliver sends a body of the type that the header names, compressed and with an ETag. A body that is asked
// for by its ETag is not sent.
func Deliver(w http.ResponseWriter, r *http.Request, body []byte) {
	h := w.Header()
	sum := sha256.Sum256(body)
	tag := `W/"` + hex.EncodeToString(sum[:12]) + `"`
	h.Set("ETag", tag)
	h.Set("Cache-Control", "no-cache, private")
	h.Add("Vary", "Accept-Encoding")
	h.Add("Vary", "Authorization")
	h.Add("Vary", "Cookie")
	if r.Method == http.MethodGet && holds(r.Header.Get("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if len(body) >= compressFrom && accepts(r.Header.Get("Accept-Encoding")) {
		var small bytes.Buffer
		z := gzip.NewWriter(&small)
		if _, err := z.Write(body); err == nil && z.Close() == nil {
			h.Set("Content-Encoding", "gzip")
			body = small.Bytes()
		}
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body)
}

// holds reports that a list of tags has one.
func holds(list, tag string) bool {
	for _, t := range strings.Split(list, ",") {
		if t = strings.TrimSpace(t); t == tag || t == "*" || "W/"+t == tag {
			return true
		}
	}
	return false
}

// accepts reports that gzip may be sent.
func accepts(header string) bool {
	for _, part := range strings.Split(header, ",") {
		name, quality, _ := strings.Cut(strings.TrimSpace(part), ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			return strings.ReplaceAll(quality, " ", "") != "q=0"
		}
	}
	return false
}
