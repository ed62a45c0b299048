package api

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// deadlined remembers the deadline that holds, and the one that held at the last write.
type deadlined struct {
	*httptest.ResponseRecorder
	now, atWrite time.Time
}

func (d *deadlined) SetWriteDeadline(t time.Time) error {
	d.now = t
	return nil
}

func (d *deadlined) Write(b []byte) (int, error) {
	d.atWrite = d.now
	return d.ResponseRecorder.Write(b)
}

// Each write has a deadline, and none is left over: it would end a quiet stream, whose next write is later.
func TestAQuietStreamHasNoDeadline(t *testing.T) {
	w := &deadlined{ResponseRecorder: httptest.NewRecorder()}
	s := &stream{w: w, control: http.NewResponseController(w)}
	s.write(": following\n\n")
	if s.err != nil || w.atWrite.IsZero() {
		t.Errorf("written without a deadline: %v", s.err)
	}
	if !w.now.IsZero() {
		t.Errorf("a deadline is left after the write: %s", w.now)
	}
}
