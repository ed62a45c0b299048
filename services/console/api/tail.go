package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"millwright/services/console/access"
	"millwright/services/console/index"
)

const (
	// beatEvery is how often a quiet stream says that it lives; writeTimeout bounds each write.
	beatEvery    = 15 * time.Second
	writeTimeout = 10 * time.Second
	// reviewEvery is how often it is looked whether the reader may still read.
	reviewEvery = 30 * time.Second
	// tailFor is how long a stream lives; readers come back by themselves.
	tailFor = 30 * time.Minute
	// missedMax bounds what a reader that comes back gets of what it missed.
	missedMax = 500
	// headTimeout bounds reading where the log ends.
	headTimeout = 3 * time.Second
)

// tail streams new records until the reader leaves, may not read any more, or is too slow.
func (a *API) tail(w http.ResponseWriter, r *http.Request, q *question) {
	f, err := q.filter(a.cfg.Now())
	if err == nil && q.has("since") {
		err = bad("a tail begins now: since is for lists")
	}
	after := cmp.Or(r.Header.Get("Last-Event-ID"), q.text("after"))
	if _, wrong := strconv.ParseUint(q.text("after"), 10, 64); err == nil && q.text("after") != "" && wrong != nil {
		err = bad("after %q: must be the sequence of a record", q.text("after"))
	}
	if err != nil {
		problem(w, StatusOf(err), err.Error())
		return
	}
	t, err := a.cfg.Index.Follow(f, a.known(r.Context(), after))
	if err != nil {
		w.Header().Set("Retry-After", "30")
		problem(w, StatusOf(err), err.Error())
		return
	}
	defer a.cfg.Index.Leave(t)
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	s := &stream{w: w, control: http.NewResponseController(w)}
	s.write(": following the log\nretry: 3000\n\n")
	a.missed(s, f, after)
	beat, review, end := time.NewTicker(beatEvery), time.NewTicker(reviewEvery), time.NewTimer(tailFor)
	defer beat.Stop()
	defer review.Stop()
	defer end.Stop()
	for s.err == nil {
		select {
		case <-r.Context().Done():
			return
		case <-a.cfg.Done:
			return
		case <-end.C:
			return
		case <-beat.C:
			s.write(": still here\n\n")
		case <-review.C:
			if who, err := a.identified(r); err != nil || a.cfg.Reviewer.Check(r.Context(), who, access.Read, false) != nil {
				s.write("event: bye\ndata: sign in again\n\n")
				return
			}
		case row, ok := <-t.Rows:
			if !ok {
				s.write("event: lost\ndata: too slow\n\n")
				return
			}
			s.row(row)
		}
	}
}

// known is the last record that is not new to a reader: the one that it has seen, or the last one that there
// is when it begins. A console that has just started still reads those before it.
func (a *API) known(ctx context.Context, after string) uint64 {
	ctx, cancel := context.WithTimeout(ctx, headTimeout)
	defer cancel()
	head, err := a.cfg.Log.Head(ctx)
	if err != nil {
		return 0
	}
	seen, err := strconv.ParseUint(after, 10, 64)
	switch {
	case err != nil:
		return head.Seq
	case seen > head.Seq: // the log was restored from a backup: what it has now is new
		return 0
	}
	return seen
}

// missed sends what came after a record that the reader has seen, and says so if there is more of that. What
// it gets twice, by its id, it knows.
func (a *API) missed(s *stream, f index.Filter, after string) {
	seen, err := strconv.ParseUint(after, 10, 64)
	if err != nil {
		return
	}
	rows, _ := a.cfg.Index.List(f, 0, missedMax+1)
	if len(rows) > missedMax {
		if rows[missedMax].Seq > seen {
			s.write(fmt.Sprintf("event: lost\ndata: more than %d records were missed\n\n", missedMax))
		}
		rows = rows[:missedMax]
	}
	for i := len(rows) - 1; i >= 0; i-- {
		if rows[i].Seq > seen {
			s.row(rows[i])
		}
	}
}

// stream of server-sent events.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	last    uint64
	err     error
}

// Pieces returns what sends an answer piece by piece: each at once, and within a deadline.
func Pieces(w http.ResponseWriter) func(text string) error {
	s := &stream{w: w, control: http.NewResponseController(w)}
	return func(text string) error {
		s.write(text)
		return s.err
	}
}

func (s *stream) row(r index.Row) {
	if r.Seq <= s.last {
		return
	}
	b, err := json.Marshal(r)
	if err != nil {
		s.err = err
		return
	}
	s.last = r.Seq
	s.write(fmt.Sprintf("id: %d\nevent: record\ndata: %s\n\n", r.Seq, b))
}

func (s *stream) write(text string) {
	if s.err != nil {
		return
	}
	if s.err = s.control.SetWriteDeadline(time.Now().Add(writeTimeout)); s.err != nil {
		return
	}
	if _, s.err = s.w.Write([]byte(text)); s.err == nil {
		s.err = s.control.Flush()
	}
	if s.err == nil {
		// HTTP/2 resets a stream whose deadline passes, also when there is nothing to write.
		s.err = s.control.SetWriteDeadline(time.Time{})
	}
}
