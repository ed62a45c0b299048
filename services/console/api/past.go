package api

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"strconv"
	"strings"
	"time"

	"millwright/services/console/history"
)

// timelineDefault is how far back a timeline goes unless asked otherwise.
const timelineDefault = 24 * time.Hour

func (a *API) timeline(_ context.Context, q *question) (any, error) {
	from, err := Since(q.text("since"), a.cfg.Now())
	if err != nil {
		return nil, err
	}
	if from.IsZero() {
		from = a.cfg.Now().Add(-timelineDefault)
	}
	var pool *string
	if q.has("nodepool") {
		name := q.text("nodepool")
		pool = &name
	}
	return a.cfg.View.Timeline(from, pool)
}

func (a *API) summary(_ context.Context, q *question) (any, error) {
	from, err := Since(q.text("since"), a.cfg.Now())
	if err != nil {
		return nil, err
	}
	if from.IsZero() {
		from = a.cfg.Now().Add(-timelineDefault)
	}
	list, err := a.cfg.View.Summary(from)
	return Summary{Since: from.UTC(), Sentences: list}, err
}

func (a *API) savings(_ context.Context, q *question) (any, error) {
	from, err := Since(q.text("since"), a.cfg.Now())
	if err != nil {
		return nil, err
	}
	return a.cfg.View.Savings(from)
}

// savingsCSV has a row for each NodePool and namespace.
func savingsCSV(result any) []byte {
	s := result.(*history.Savings)
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	_ = w.Write([]string{"nodepool", "namespace", "commands", "nodes", "evictions", "promised_usd_per_hour", "realized_usd_per_hour"})
	for _, x := range s.Items {
		_ = w.Write([]string{cell(x.NodePool), cell(x.Namespace), strconv.Itoa(x.Commands), strconv.Itoa(x.Nodes), strconv.Itoa(x.Evictions), dollars(x.Promised), dollars(x.Realized)})
	}
	w.Flush() // a buffer takes everything
	return b.Bytes()
}

// cell keeps a name from being taken for a formula by whatever opens the file.
func cell(s string) string {
	if s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return "'" + s
	}
	return s
}

// dollars of micro USD, exactly.
func dollars(micro int64) string {
	sign := ""
	if micro < 0 {
		sign, micro = "-", -micro
	}
	return fmt.Sprintf("%s%d.%06d", sign, micro/1e6, micro%1e6)
}
