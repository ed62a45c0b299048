package access

import (
	"context"
	"net/http"
)

type knowing struct{}

// Knowing has known called once it is clear who sends the request of a context, perhaps more than once.
func Knowing(ctx context.Context, known func()) context.Context {
	before, _ := ctx.Value(knowing{}).(func())
	return context.WithValue(ctx, knowing{}, func() {
		if before != nil {
			before()
		}
		known()
	})
}

// Known says that it is clear who sends a request.
func Known(r *http.Request) {
	if known, ok := r.Context().Value(knowing{}).(func()); ok {
		known()
	}
}
