package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	"millwright/services/console/index"
)

// steadyFor is how long a connection lasts that counts as one that worked; a token that is made for it is
// good for longer.
const steadyFor = tokenSeconds * time.Second / 2

// Records are those of the log that are wanted, oldest first.
type Records struct {
	// Query chooses them. Follow also wants those that are to come.
	Query  url.Values
	Follow bool
	// Print is called with each record, LeftOut with the first of them if there are too many before it.
	Print   func(*index.Row) error
	LeftOut func(first uint64)

	// seen is the last record that was printed, or is known not to be wanted. paged: this connection has read
	// all pages once.
	seen  uint64
	paged bool
}

// Read prints the records by connections that ask makes, each with a token of its own: who follows the log
// for longer than a token is good, or than the console's pod lives, goes on with the next one. Who may not
// read, or reaches no console, learns it from the first one.
func (r *Records) Read(ctx context.Context, ask func(context.Context, func(*Client) error) error) error {
	for failures, followed := 0, false; ; {
		began := time.Now()
		r.paged = false
		err := ask(ctx, func(c *Client) error { return r.by(ctx, c) })
		if followed = followed || r.paged; !r.Follow || !followed || err == nil {
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
		if failures++; time.Since(began) > steadyFor {
			failures = 1
		}
		if failures == triesMax || !passing(err) || Denied(err) && !r.paged {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second << (failures - 1)):
		}
	}
}

// passing reports that another connection may do what one could not.
func passing(err error) bool { return Denied(err) || busy(err) || errors.Is(err, ErrUnreachable) }

// by reads by one connection.
func (r *Records) by(ctx context.Context, c *Client) error {
	for {
		rows, last, more, err := c.Rows(ctx, r.Query, r.seen)
		if err != nil {
			return err
		}
		if more {
			r.LeftOut(rows[len(rows)-1].Seq)
		}
		for i := len(rows) - 1; i >= 0; i-- {
			if err := r.print(&rows[i]); err != nil {
				return err
			}
		}
		if r.paged = true; !r.Follow {
			return nil
		}
		r.seen = max(r.seen, last)
		r.Query.Del("since") // all that follows is wanted, however long it takes to come back
		err = c.Tail(ctx, url.Values{"kind": r.Query["kind"], "object": r.Query["object"]}, r.seen, func(data []byte) error {
			row := &index.Row{}
			if err := json.Unmarshal(data, row); err != nil {
				return fmt.Errorf("decode record: %w", err)
			}
			return r.print(row)
		})
		if !errors.Is(err, ErrMissed) { // else it is in the pages
			return err
		}
	}
}

func (r *Records) print(row *index.Row) error {
	if err := r.Print(row); err != nil {
		return err
	}
	r.seen = max(r.seen, row.Seq)
	return nil
}
