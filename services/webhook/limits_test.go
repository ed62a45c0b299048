package webhook

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
)

// stalledBody never ends.
type stalledBody struct {
	reads *int
	end   chan struct{}
}

func (b stalledBody) Read([]byte) (int, error) {
	*b.reads++
	<-b.end
	return 0, io.ErrUnexpectedEOF
}

// Of strangers that send reviews and do not finish them, the first few are read; there is room for others
// when they have ended.
func TestFewReviewsAreReadAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHandler(t)
		server := (&Webhook{handler: h, metrics: h.metrics, logger: zerolog.Nop()}).server()
		if server.MaxHeaderBytes == 0 {
			t.Error("headers are not bounded")
		}
		end := make(chan struct{})
		send := func(reads *int) int {
			r := httptest.NewRequest(http.MethodPost, "/conversion/karpenter.sh", stalledBody{reads, end})
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			server.Handler.ServeHTTP(w, r)
			return w.Code
		}
		for range reviewsMax {
			go send(new(int))
		}
		synctest.Wait()
		reads, began := 0, time.Now()
		if code := send(&reads); code != http.StatusServiceUnavailable || reads > 0 || time.Since(began) != reviewWait {
			t.Errorf("one more: status %d after %s and %d reads", code, time.Since(began), reads)
		}
		go func() {
			time.Sleep(reviewWait / 2)
			close(end)
		}()
		if code := send(&reads); code != http.StatusBadRequest || reads != 1 {
			t.Errorf("when there is room again: status %d after %d reads", code, reads)
		}
	})
}
