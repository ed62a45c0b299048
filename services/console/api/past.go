package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"millwright/services/console/history"
	"millwright/services/console/view"
)

// timelineDefault is how far back a timeline goes unless asked otherwise.
const timelineDefault = 24 * time.Hour

func (a *API) timeline(ctx context.Context, q *question) (any, error) {
	from, err := Since(q.text("since"), a.cfg.Now())
	if err != nil {
		return nil, err
	}
	if from.IsZero() {
		from = a.cfg.Now().Add(-timelineDefault)
	}
	f := history.Filter{Kind: q.text("kind"), Reason: q.text("reason")}
	if f.Kind != "" && !slices.Contains(history.Kinds, f.Kind) {
		return nil, bad("kind %q: must be one of %s", f.Kind, strings.Join(history.Kinds, ", "))
	}
	if q.has("nodepool") {
		name := q.text("nodepool")
		f.NodePool = &name
	}
	subject, err := TimelineSubject(q.text("object"))
	if err != nil {
		return nil, err
	}
	return a.cfg.View.Timeline(ctx, from, f, subject)
}

// TimelineSubject is what a timeline is of, from KIND/NAME as users write it, such as node/NAME or
// pod/NAMESPACE/NAME; "" for nothing.
func TimelineSubject(object string) (string, error) {
	if object == "" {
		return "", nil
	}
	kind, name, _ := strings.Cut(object, "/")
	subject := view.Subject(kind, name)
	if subject == "" {
		return "", bad("object %q: must be KIND/NAME, of %s", object, strings.Join(view.Kinds, ", "))
	}
	return subject, nil
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

func (a *API) health(_ context.Context, q *question) (any, error) {
	from, err := Since(q.text("since"), a.cfg.Now())
	if err != nil {
		return nil, err
	}
	rows, err := a.cfg.View.Health(from)
	return Health{Items: rows}, err
}

func (a *API) rollouts(context.Context, *question) (any, error) {
	list, err := a.cfg.View.Rollouts()
	return Rollouts{Items: list}, err
}

// What tables of savings have a row for.
const (
	byNamespace = "namespace"
	byTeam      = "team"
	byNodePool  = "nodepool"
)

// table has a first row with the names of its columns.
type table [][]string

// csvOf a table.
func csvOf(result any) []byte {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	_ = w.WriteAll(result.(table)) // a buffer takes everything
	return b.Bytes()
}

// savingsTable has a row for each NodePool and namespace, or for each team.
func (a *API) savingsTable(ctx context.Context, q *question) (any, error) {
	by := cmp.Or(q.text("by"), byNamespace)
	result, err := a.savings(ctx, q)
	if err != nil {
		return nil, err
	}
	s := result.(*history.Savings)
	numbers := []string{"commands", "nodes", "evictions", "promised_usd_per_hour", "realized_usd_per_hour"}
	var t table
	switch by {
	case byNamespace:
		t = table{append([]string{"nodepool", "namespace"}, numbers...)}
		for _, x := range s.Items {
			t = append(t, []string{cell(x.NodePool), cell(x.Namespace), strconv.Itoa(x.Commands), strconv.Itoa(x.Nodes), strconv.Itoa(x.Evictions), dollars(x.Promised), dollars(x.Realized)})
		}
	case byTeam:
		t = table{append([]string{"team"}, numbers...)}
		for _, x := range s.Teams {
			t = append(t, []string{cell(x.Team), strconv.Itoa(x.Commands), strconv.Itoa(x.Nodes), strconv.Itoa(x.Evictions), dollars(x.Promised), dollars(x.Realized)})
		}
	default:
		return nil, bad("by %q: must be %s or %s", by, byNamespace, byTeam)
	}
	return t, nil
}

// spotTable has a row for each NodePool that had spot instances, or for each namespace or team with pods
// there.
func (a *API) spotTable(ctx context.Context, q *question) (any, error) {
	by := cmp.Or(q.text("by"), byNodePool)
	result, err := a.savings(ctx, q)
	if err != nil {
		return nil, err
	}
	s := result.(*history.Savings).Spot
	list := s.Namespaces
	switch by {
	case byNodePool:
		t := table{{"nodepool", "instances", "unpriced", "running", "saved_usd_per_hour", "on_demand_usd", "saved_usd"}}
		for _, x := range s.Items {
			t = append(t, []string{cell(x.NodePool), strconv.Itoa(x.Instances), strconv.Itoa(x.Unpriced), strconv.Itoa(x.Running), dollars(x.PerHour), dollars(x.OnDemand), dollars(x.Saved)})
		}
		return t, nil
	case byNamespace:
	case byTeam:
		list = s.Teams
	default:
		return nil, bad("by %q: must be %s, %s or %s", by, byNodePool, byNamespace, byTeam)
	}
	t := table{{by, "on_demand_usd", "saved_usd"}}
	for _, x := range list {
		t = append(t, []string{cell(x.Name), dollars(x.OnDemand), dollars(x.Saved)})
	}
	return t, nil
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
