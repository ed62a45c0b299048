package webhook

import (
	"context"
	"net/http"
	"time"
)

const (
	// connectionsMax and headerBytesMax bound what strangers can hold open; of API servers there are few,
	// each with few connections.
	connectionsMax = 256
	headerBytesMax = 16 << 10
	// reviewsMax is how many reviews are read and answered at once: each may hold requestBytesMax. One that
	// finds no place for reviewWait is refused; the API server asks again.
	reviewsMax = 8
	reviewWait = 5 * time.Second
)

// slots bounds what is held of requests.
type slots chan struct{}

// take a slot, to be given back; false if none was free for reviewWait.
func (s slots) take(ctx context.Context) bool {
	wait := time.NewTimer(reviewWait)
	defer wait.Stop()
	select {
	case s <- struct{}{}:
		return true
	case <-wait.C:
	case <-ctx.Done():
	}
	return false
}

func (s slots) give() { <-s }

// bounded serves as many requests at once as there are slots; the others are not read.
func bounded(next http.Handler, s slots, refused func()) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.take(r.Context()) {
			refused()
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many reviews at once", http.StatusServiceUnavailable)
			return
		}
		defer s.give()
		next.ServeHTTP(w, r)
	})
}
