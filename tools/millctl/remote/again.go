package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"millwright/services/console/view"
	"millwright/store/audit/plan"
	"millwright/store/audit/whatif"
)

// Replay has the console take the decision of a record again, and compare.
func (c *Client) Replay(ctx context.Context, record uint64) (*view.Replayed, error) {
	x := &view.Replayed{}
	return x, c.Get(ctx, fmt.Sprintf("/decisions/%d/replay", record), nil, x)
}

// Instead has the console say what the decision of a record would have been with the objects and prices of
// some files.
func (c *Client) Instead(ctx context.Context, record uint64, files []plan.Source) (*whatif.Report, error) {
	q, err := question(files)
	if err != nil {
		return nil, err
	}
	q.Record = record
	body, err := json.Marshal(q)
	if err != nil {
		return nil, fmt.Errorf("encode the question: %w", err)
	}
	x := &view.Plan{}
	if _, err := c.do(ctx, http.MethodPost, "/plan", nil, body, x); err != nil {
		return nil, err
	}
	if x.Instead == nil {
		return nil, errors.New("the console has planned for the present: it is of an earlier version")
	}
	return x.Instead, nil
}

// priceList is how a file with prices begins.
var priceList = regexp.MustCompile(`(?m)^\s*[{]?\s*"?prices"?\s*:`)

// question puts files together: price lists, and manifests.
func question(files []plan.Source) (q view.PlanRequest, err error) {
	var manifests, prices []string
	for _, f := range files {
		text, err := textOf(f)
		if err != nil {
			return q, err
		}
		if priceList.MatchString(text) {
			prices = append(prices, text)
		} else {
			manifests = append(manifests, text)
		}
	}
	q.Manifests, q.Prices = strings.Join(manifests, "\n---\n"), strings.Join(prices, "\n---\n")
	return q, nil
}
