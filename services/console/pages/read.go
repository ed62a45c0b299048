package pages

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"millwright/planner/ledger"
	"millwright/services/console/api"
	"millwright/services/console/index"
	"millwright/services/console/view"
	"millwright/store/audit/overview"
)

const (
	// shownMax bounds the nodes on a page, podsMax the pods, rowsMax the records.
	shownMax = 400
	podsMax  = 50
	rowsMax  = 60
)

// nowPage is the state of the cluster.
type nowPage struct {
	*view.Now
	Status   *overview.Status
	Groups   []group
	Pending  []view.Pod
	Waiting  int
	Commands []overview.CommandLine
	// Pool that alone is shown; "" for all. More nodes there are than are shown.
	Pool  string
	One   bool
	More  int
	Total int
}

// group is the nodes of a NodePool, by zone.
type group struct {
	view.Pool
	Zones []zone
}

type zone struct {
	Name  string
	Nodes []view.Node
}

func (p *Pages) now(ctx context.Context, r *request) (string, any, error) {
	p.cfg.View.Look(ctx)
	now, err := p.cfg.View.Now()
	if err != nil {
		return "", nil, err
	}
	x := nowPage{Now: now, Pool: r.URL.Query().Get("pool"), One: r.URL.Query().Has("pool"), Total: len(now.Nodes)}
	if x.Status, err = p.cfg.View.Status(ctx); err != nil {
		return "", nil, err
	}
	if x.Pending, _, x.Waiting, err = p.cfg.View.Pending(ctx, "", podsMax); err != nil {
		return "", nil, err
	}
	if x.Commands, err = p.cfg.View.Commands(); err != nil {
		return "", nil, err
	}
	x.Groups, x.More = grouped(now, x.Pool, x.One)
	return "Now", x, nil
}

// grouped are the nodes by NodePool and zone, those first that are not simply ready.
func grouped(now *view.Now, pool string, one bool) (groups []group, more int) {
	left := shownMax
	for _, p := range now.Pools {
		if one && p.Name != pool {
			continue
		}
		var nodes []view.Node
		for _, n := range now.Nodes {
			if n.NodePool == p.Name {
				nodes = append(nodes, n)
			}
		}
		slices.SortStableFunc(nodes, func(a, b view.Node) int {
			return cmp.Compare(rank(a), rank(b))
		})
		if len(nodes) > left {
			more += len(nodes) - left
			nodes = nodes[:left]
		}
		left -= len(nodes)
		g := group{Pool: p}
		slices.SortStableFunc(nodes, func(a, b view.Node) int { return cmp.Compare(a.Zone, b.Zone) })
		for _, n := range nodes {
			if len(g.Zones) == 0 || g.Zones[len(g.Zones)-1].Name != n.Zone {
				g.Zones = append(g.Zones, zone{Name: n.Zone})
			}
			z := &g.Zones[len(g.Zones)-1]
			z.Nodes = append(z.Nodes, n)
		}
		groups = append(groups, g)
	}
	return groups, more
}

func rank(n view.Node) int {
	if n.State == view.StateReady && !n.ToGo {
		return 1
	}
	return 0
}

// decisionsPage is a page of the log.
type decisionsPage struct {
	Rows  []index.Row
	Older string
	// Kinds to choose from, and what was chosen.
	Kinds                      []string
	Kind, Object, Since, Until string
	Decisions                  bool
	// Tail is the query of the live tail; "" on pages further back.
	Tail       string
	From, Head uint64
}

func (p *Pages) decisions(ctx context.Context, r *request) (string, any, error) {
	q := r.URL.Query()
	x := decisionsPage{Kinds: kindNames(), Kind: q.Get("kind"), Object: strings.TrimSpace(q.Get("object")), Since: q.Get("since"), Until: q.Get("until"), Decisions: q.Get("decisions") == "true"}
	f := index.Filter{Object: api.Object(x.Object), Decisions: x.Decisions}
	if x.Kind != "" {
		f.Kinds = []string{x.Kind}
	}
	var err error
	if f.Since, err = api.Since(x.Since, p.cfg.Now()); err != nil {
		return "", nil, err
	}
	if f.Until, err = api.Since(x.Until, p.cfg.Now()); err != nil {
		return "", nil, err
	}
	below, _ := strconv.ParseUint(q.Get("cursor"), 10, 64)
	_, seen, _ := p.cfg.Index.Extent() // before it is read: what is written meanwhile the tail has
	rows, more, err := p.cfg.View.Rows(ctx, f, below, rowsMax)
	if err != nil {
		return "", nil, err
	}
	x.Rows = rows
	x.From, x.Head = p.cfg.View.Extent()
	query := url.Values{}
	for name, value := range map[string]string{"kind": x.Kind, "object": x.Object} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if x.Decisions {
		query.Set("decisions", "true")
	}
	if below == 0 && x.Until == "" {
		query.Set("after", strconv.FormatUint(seen, 10))
		x.Tail = "?" + query.Encode()
		query.Del("after")
	}
	if more {
		if x.Since != "" {
			query.Set("since", x.Since)
		}
		if x.Until != "" {
			query.Set("until", x.Until)
		}
		query.Set("cursor", strconv.FormatUint(rows[len(rows)-1].Seq, 10))
		x.Older = "/decisions?" + query.Encode()
	}
	return "Decisions", x, nil
}

// kindNames of records that people look for.
func kindNames() []string {
	var list []string
	for _, k := range []ledger.Kind{
		ledger.KindProvisioningPlanned, ledger.KindProvisioningWidened, ledger.KindClaimCreated, ledger.KindLaunched, ledger.KindLaunchFailed,
		ledger.KindClaimRegistered, ledger.KindClaimInitialized, ledger.KindClaimDoomed, ledger.KindClaimClosed, ledger.KindInstanceTerminated,
		ledger.KindCommandProposed, ledger.KindProposalAnswered, ledger.KindProposalEnded, ledger.KindCommandStarted, ledger.KindCommandMovesStarted,
		ledger.KindCommandConfirmed, ledger.KindCommandSucceeded, ledger.KindCommandRolledBack, ledger.KindDriftJudged, ledger.KindDrainStarted,
		ledger.KindNodeDrained, ledger.KindAlarmRaised, ledger.KindOrphanFound, ledger.KindControlChanged, ledger.KindModeChanged, ledger.KindOptionsSet,
	} {
		list = append(list, k.String())
	}
	return list
}

func (p *Pages) decision(ctx context.Context, r *request) (string, any, error) {
	seq, err := sequence(r)
	if err != nil {
		return "", nil, err
	}
	d, err := p.cfg.View.Decision(ctx, seq)
	return fmt.Sprintf("Record %d", seq), d, err
}

func (p *Pages) replay(ctx context.Context, r *request) (string, any, error) {
	seq, err := sequence(r)
	if err != nil {
		return "", nil, err
	}
	x, err := p.cfg.View.Replay(ctx, r.who.Name, seq)
	return fmt.Sprintf("Record %d again", seq), x, err
}

func (p *Pages) facts(ctx context.Context, r *request) (string, any, error) {
	seq, err := sequence(r)
	if err != nil {
		return "", nil, err
	}
	x, err := p.cfg.View.Facts(ctx, r.who.Name, seq)
	return fmt.Sprintf("What record %d was decided on", seq), x, err
}

// sequence of the record that the path names.
func sequence(r *request) (uint64, error) {
	seq, err := strconv.ParseUint(r.PathValue("seq"), 10, 63)
	if err != nil || seq == 0 {
		return 0, fmt.Errorf("%w: %q is no sequence of a record", view.ErrNotFound, r.PathValue("seq"))
	}
	return seq, nil
}

// objectPage is the story of an object.
type objectPage struct {
	*view.Story
	Kind, Name string
	// Pool is the NodePool that it is, if the cluster has it.
	Pool string
}

func (p *Pages) object(ctx context.Context, r *request) (string, any, error) {
	kind, name := r.PathValue("kind"), r.PathValue("name")
	subject := view.Subject(kind, name)
	if subject == "" {
		return "", nil, fmt.Errorf("%w: nothing is told of a %s", view.ErrNotFound, kind)
	}
	x := objectPage{Kind: kind, Name: name}
	if pool, ok := strings.CutPrefix(subject, "pool/"); ok && p.cfg.View.HasNodePool(pool) {
		x.Pool = pool
	}
	var err error
	x.Story, err = p.cfg.View.Why(ctx, subject)
	return kind + " " + name, x, err
}

// find leads from the form to the page of an object.
func find(w http.ResponseWriter, r *http.Request) {
	kind, name := r.URL.Query().Get("kind"), strings.Trim(strings.TrimSpace(r.URL.Query().Get("name")), "/")
	if kind == "" || name == "" {
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	http.Redirect(w, r, objectPath(kind, name), http.StatusSeeOther)
}

func objectPath(kind, name string) string {
	parts := strings.Split(name, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return "/object/" + url.PathEscape(kind) + "/" + strings.Join(parts, "/")
}
