package pages

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"sigs.k8s.io/yaml"

	"millwright/services/console/access"
	"millwright/services/console/api"
	"millwright/services/console/view"
	"millwright/store/audit/plan"
)

const (
	// planFormMax bounds what is read of the form of a plan: in a form, many characters take three bytes.
	planFormMax = 4 * view.PlanInputMax
	// blockedShown bounds the nodes that stay, movesShown the pods of a command, refusedShown the refusals,
	// and claimsShown the claims, nodes and commands of a plan on its page.
	blockedShown, movesShown, refusedShown, claimsShown = 40, 20, 50, 60
)

// planPage is the form and, once it was sent, the answer.
type planPage struct {
	Asked view.PlanRequest
	// May: they may ask. Problem is why there is no answer.
	May     bool
	Problem string
	*view.Plan
	// Was is the time that the manifests are as of that the form begins with; zero: it begins with none.
	Was time.Time
	// About what the question was prepared for; "" for nothing.
	About                                                         string
	InputMax, ClaimsShown, RefusedShown, BlockedShown, MovesShown int
}

func (p *Pages) newPlan(r *request) planPage {
	return planPage{May: p.cfg.Reviewer.Check(r.Context(), r.who, access.Plan, false) == nil, InputMax: view.PlanInputMax >> 20,
		ClaimsShown: claimsShown, RefusedShown: refusedShown, BlockedShown: blockedShown, MovesShown: movesShown}
}

// planForm shows the form, with a NodePool to begin with if one is named.
func (p *Pages) planForm(ctx context.Context, r *request) (string, any, error) {
	x := p.newPlan(r)
	if record := r.URL.Query().Get("record"); record != "" {
		seq, err := strconv.ParseUint(record, 10, 63)
		if err != nil || seq == 0 {
			return "", nil, fmt.Errorf("%w: %q is no sequence of a record", view.ErrNotFound, record)
		}
		x.Asked.Record = seq
		if x.May {
			x.begin(ctx, p, r.who.Name)
		}
	}
	if name := r.URL.Query().Get("nodepool"); name != "" {
		object, err := p.cfg.View.NodePool(name)
		if err != nil {
			return "", nil, err
		}
		text, err := yaml.Marshal(object)
		if err != nil {
			return "", nil, fmt.Errorf("write NodePool %s: %w", name, err)
		}
		x.Asked.Manifests, x.About = string(text), "NodePool "+name
	}
	return "Plan", x, nil
}

// begin fills in what the decision was taken on, so that one line of it can be changed. Without it the
// form is empty, and says why.
func (x *planPage) begin(ctx context.Context, p *Pages, who string) {
	facts, err := p.cfg.View.Facts(ctx, who, x.Asked.Record)
	if err != nil {
		x.Problem = err.Error()
		return
	}
	x.Asked.Manifests, x.Was = facts.Manifests, facts.Now
}

// plan answers the form. It changes nothing, so it is shown at once, and what was asked with it.
func (p *Pages) plan(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, planFormMax)
	q := p.admit(w, r, access.Plan, false)
	if q == nil {
		return
	}
	x := p.newPlan(q)
	status := http.StatusOK
	err := readPlan(r, &x.Asked)
	if err == nil {
		x.Plan, err = p.cfg.View.Plan(r.Context(), q.who.Name, x.Asked)
	}
	if err != nil {
		if status = api.StatusOf(err); status == http.StatusInternalServerError {
			p.fail(w, r, q, err)
			return
		}
		x.Problem = err.Error()
	}
	p.show(w, q, status, "plan", "Plan", x)
}

// readPlan reads the form: what is uploaded follows what is pasted.
func readPlan(r *http.Request, into *view.PlanRequest) error {
	if err := r.ParseMultipartForm(planFormMax); err != nil && !errors.Is(err, http.ErrNotMultipart) {
		return fmt.Errorf("%w: read the form: %w", view.ErrQuestion, err)
	}
	defer func() {
		if r.MultipartForm != nil {
			_ = r.MultipartForm.RemoveAll()
		}
	}()
	if record := r.PostFormValue("record"); record != "" {
		seq, err := strconv.ParseUint(record, 10, 63)
		if err != nil || seq == 0 {
			return fmt.Errorf("%w: %q is no sequence of a record", view.ErrQuestion, record)
		}
		into.Record = seq
	}
	into.Alone, into.NodeTime = r.PostFormValue("alone") == "true", strings.TrimSpace(r.PostFormValue("nodeTime"))
	for name, text := range map[string]*string{"manifests": &into.Manifests, "catalog": &into.Catalog, "prices": &into.Prices} {
		*text = strings.TrimSpace(strings.ReplaceAll(r.PostFormValue(name), "\r\n", "\n"))
		if r.MultipartForm == nil {
			continue
		}
		for _, header := range r.MultipartForm.File[name+"-file"] {
			f, err := header.Open()
			if err != nil {
				return fmt.Errorf("%w: read file %s: %w", view.ErrQuestion, header.Filename, err)
			}
			raw, err := io.ReadAll(f)
			_ = f.Close()
			switch {
			case err != nil:
				return fmt.Errorf("%w: read file %s: %w", view.ErrQuestion, header.Filename, err)
			case !utf8.Valid(raw):
				return fmt.Errorf("%w: file %s is no text", view.ErrQuestion, header.Filename)
			case len(raw) > 0 && *text != "":
				*text += "\n---\n"
			}
			*text += string(raw)
		}
	}
	return nil
}

// evictionsOf sums up what commands move.
func evictionsOf(d *plan.Disruption) (n int) {
	for i := range d.Commands {
		n += d.Commands[i].Evictions
	}
	return n
}

// newNodes counts the nodes that a plan makes.
func newNodes(r *plan.Report) int {
	n := len(r.NewNodeClaims)
	for _, s := range r.StaticNodeClaims {
		n += s.Count
	}
	return n
}
