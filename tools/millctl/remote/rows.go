package remote

import (
	"context"
	"net/url"

	"millwright/services/console/api"
	"millwright/services/console/index"
)

// rowsMax bounds the records that the console is asked for.
const rowsMax = 100_000

// Rows reads all pages of records after one, newest first, and the head of the log before the first page was
// made. more: there are so many that older ones are left out.
func (c *Client) Rows(ctx context.Context, query url.Values, after uint64) (rows []index.Row, last uint64, more bool, err error) {
	query.Del("cursor")
	for {
		page := &api.Decisions{}
		if err := c.Get(ctx, "/decisions", query, page); err != nil {
			return nil, 0, false, err
		}
		if last == 0 {
			last = page.Head
		}
		for i := range page.Items {
			if page.Items[i].Seq <= after {
				return rows, last, false, nil
			}
			rows = append(rows, page.Items[i])
		}
		if page.Next == "" || len(rows) >= rowsMax {
			return rows, last, page.Next != "", nil
		}
		query.Set("cursor", page.Next)
	}
}
