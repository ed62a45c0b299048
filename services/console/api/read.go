package api

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"millwright/services/console/index"
	"millwright/services/console/view"
	"millwright/store/audit/overview"
)

const (
	limitDefault = 100
	limitMax     = 500
)

func (a *API) nodes(ctx context.Context, q *question) (any, error) {
	a.cfg.View.Look(ctx)
	now, err := a.cfg.View.Now()
	if err != nil {
		return nil, err
	}
	limit, err := q.limit()
	if err != nil {
		return nil, err
	}
	pool, inPool := q.text("nodepool"), q.has("nodepool")
	out := Nodes{Items: []view.Node{}, MicroUSDPerHour: now.MicroUSDPerHour, LeastMicroUSDPerHour: now.LeastMicroUSDPerHour, StaysAsOf: now.StaysAsOf}
	after := q.text("cursor")
	for i := range now.Nodes {
		n := &now.Nodes[i]
		if inPool && n.NodePool != pool || q.has("state") && n.State != q.text("state") {
			continue
		}
		out.Total++
		if n.Name <= after {
			continue
		}
		if len(out.Items) == limit {
			out.Next = out.Items[limit-1].Name
			continue
		}
		out.Items = append(out.Items, *n)
	}
	return out, nil
}

func (a *API) pods(ctx context.Context, q *question) (any, error) {
	limit, err := q.limit()
	if err != nil {
		return nil, err
	}
	list, more, total, err := a.cfg.View.Pending(ctx, q.text("cursor"), limit)
	if err != nil {
		return nil, err
	}
	out := Pods{Items: list, Total: total}
	if more {
		out.Next = list[len(list)-1].Namespace + "/" + list[len(list)-1].Name
	}
	return out, nil
}

func (a *API) pools(context.Context, *question) (any, error) {
	now, err := a.cfg.View.Now()
	if err != nil {
		return nil, err
	}
	return NodePools{Items: now.Pools}, nil
}

func (a *API) decisions(ctx context.Context, q *question) (any, error) {
	limit, err := q.limit()
	if err != nil {
		return nil, err
	}
	f, err := q.filter(a.cfg.Now())
	if err != nil {
		return nil, err
	}
	below := uint64(0)
	if c := q.text("cursor"); c != "" {
		if below, err = strconv.ParseUint(c, 10, 64); err != nil || below == 0 {
			return nil, bad("cursor %q is not one of a page of decisions", c)
		}
	}
	rows, more, err := a.cfg.View.Rows(ctx, f, below, limit)
	if err != nil {
		return nil, err
	}
	out := Decisions{Items: rows}
	out.From, out.Head = a.cfg.View.Extent()
	if more {
		out.Next = strconv.FormatUint(rows[len(rows)-1].Seq, 10)
	}
	return out, nil
}

func (a *API) decision(ctx context.Context, q *question) (any, error) {
	seq, err := q.sequence()
	if err != nil {
		return nil, err
	}
	return a.cfg.View.Decision(ctx, seq)
}

func (a *API) replay(ctx context.Context, q *question) (any, error) {
	seq, err := q.sequence()
	if err != nil {
		return nil, err
	}
	return a.cfg.View.Replay(ctx, q.who.Name, seq)
}

func (a *API) facts(ctx context.Context, q *question) (any, error) {
	seq, err := q.sequence()
	if err != nil {
		return nil, err
	}
	return a.cfg.View.Facts(ctx, q.who.Name, seq)
}

// sequence of the record that the path names.
func (q *question) sequence() (uint64, error) {
	seq, err := strconv.ParseUint(q.path("seq"), 10, 63)
	if err != nil || seq == 0 {
		return 0, bad("%q is no sequence of a record", q.path("seq"))
	}
	return seq, nil
}

func (a *API) why(ctx context.Context, q *question) (any, error) {
	subject := view.Subject(q.path("kind"), q.path("name"))
	if subject == "" {
		return nil, bad("explain %q: must be %s", q.path("kind"), strings.Join(view.Kinds, ", "))
	}
	return a.cfg.View.Why(ctx, subject)
}

func (a *API) commands(_ context.Context, q *question) (any, error) {
	state := strings.ToLower(q.text("state"))
	if state != "" && !slices.Contains(overview.CommandStates, state) {
		return nil, bad("state %q: must be one of %s", state, strings.Join(overview.CommandStates, ", "))
	}
	list, err := a.cfg.View.Commands()
	if err != nil {
		return nil, err
	}
	if state != "" {
		list = slices.DeleteFunc(list, func(c overview.CommandLine) bool { return !strings.EqualFold(c.State, state) })
	}
	limit := limitMax
	if q.text("limit") != "" {
		if limit, err = q.limit(); err != nil {
			return nil, err
		}
	}
	out := Commands{Total: len(list)}
	if c := q.text("cursor"); c != "" {
		at, id, _ := strings.Cut(c, "/")
		began, err := time.Parse(time.RFC3339Nano, at)
		if err != nil {
			return nil, bad("cursor %q is not one of a page of commands", c)
		}
		list = slices.DeleteFunc(list, func(c overview.CommandLine) bool { return cmp.Or(c.At.Compare(began), cmp.Compare(c.ID, id)) <= 0 })
	}
	if out.Items = list; len(list) > limit {
		out.Items = list[:limit]
		last := &list[limit-1]
		out.Next = last.At.Format(time.RFC3339Nano) + "/" + last.ID
	}
	return out, nil
}

func (a *API) plan(ctx context.Context, q *question) (any, error) {
	return a.cfg.View.Plan(ctx, q.who.Name, *q.asked.(*view.PlanRequest))
}

func (q *question) limit() (int, error) {
	s := q.text("limit")
	if s == "" {
		return limitDefault, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > limitMax {
		return 0, bad("limit %q: must be from 1 to %d", s, limitMax)
	}
	return n, nil
}

// filter of the parameters for lists of records.
func (q *question) filter(now time.Time) (index.Filter, error) {
	f := index.Filter{Object: Object(q.text("object")), Decisions: q.text("decisions") == "true"}
	for _, k := range q.values["kind"] {
		if k != "" {
			f.Kinds = append(f.Kinds, k)
		}
	}
	var err error
	if f.Since, err = Since(q.text("since"), now); err != nil {
		return f, err
	}
	if f.Until, err = Since(q.text("until"), now); err != nil {
		return f, bad("until %q: must be a time as 2006-01-02T15:04:05Z, or a span before now such as 1h", q.text("until"))
	}
	return f, nil
}

// Object is a subject as records name it, from KIND/NAME as users write it, such as nodepool/NAME for
// pool/NAME. Others stay what they are.
func Object(text string) string {
	kind, name, _ := strings.Cut(text, "/")
	return cmp.Or(view.Subject(kind, name), text)
}

// Since is a time, or as long before now as a span says; zero for nothing.
func Since(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if at, err := time.Parse(time.RFC3339, s); err == nil {
		return at, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return time.Time{}, bad("since %q: must be a time as 2006-01-02T15:04:05Z, or a span such as 1h", s)
	}
	return now.Add(-d), nil
}

// badError says what is wrong with a question.
type badError struct{ text string }

func (e *badError) Error() string { return e.text }

func bad(format string, args ...any) error { return &badError{fmt.Sprintf(format, args...)} }
