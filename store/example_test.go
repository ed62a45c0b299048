package store_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"millwright/store"
	"millwright/store/memlog"
)

// An append names the aggregates that it relies on and where they stand. The loser of a race is told, and
// plans anew.
func ExampleLog() {
	ctx := context.Background()
	var log store.Log = memlog.New("example")
	draft := store.Draft{Time: time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC), Service: "provisioner", Mode: "active", Kind: 20,
		Payload: []byte(`{}`), Expects: map[string]uint64{"pool/default": 0}, Advances: []string{"pool/default"}}

	rec, err := log.Append(ctx, draft)
	fmt.Println("record", rec.Seq, err)

	_, err = log.Append(ctx, draft) // the pool stands at record 2 now
	fmt.Println("conflict:", errors.Is(err, store.ErrConflict))

	draft.Expects["pool/default"] = rec.Seq
	rec, err = log.Append(ctx, draft)
	fmt.Println("record", rec.Seq, err)

	last, err := log.Verify(ctx)
	fmt.Println("verified up to", last, err)
	// Output:
	// record 2 <nil>
	// conflict: true
	// record 3 <nil>
	// verified up to 3 <nil>
}
