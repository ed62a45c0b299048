package plan

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

const (
	typesShown = 4
	podsShown  = 3
)

// WriteTable writes the report for people: what would be made, what goes to nodes that exist, and what is
// refused.
func (r *Report) WriteTable(out io.Writer) error {
	b := bufio.NewWriter(out)
	r.writeClaims(b)
	r.writeNodes(b)
	r.writeRefusals(b)
	r.writeBuffers(b)
	static := 0
	for _, c := range r.StaticNodeClaims {
		fmt.Fprintf(b, "NodePool %s lacks %d of its replicas: they would be made as its template says\n", c.NodePool, c.Count)
		static += c.Count
	}
	if r.staticWave > 0 && static >= int(r.staticWave) {
		fmt.Fprintf(b, "Static NodePools have at most %d NodeClaims without an instance at a time: what else they lack follows\n", r.staticWave)
	}
	for _, p := range r.overlays {
		fmt.Fprintf(b, "NodeOverlay %s is not applied: %s\n", p.NodeOverlay, p.Message)
	}
	for _, p := range r.problems {
		fmt.Fprintf(b, "NodePool %s opens no claims: %s\n", p.NodePool, p.Message)
	}
	placed := r.Stats.Pods - len(r.Unschedulable)
	fmt.Fprintf(b, "%d of %d pods placed, %d new NodeClaims, $%s an hour (no plan below $%s), planned in %d ms\n",
		placed, r.Stats.Pods, len(r.NewNodeClaims), dollars(r.price), dollars(r.bound), r.Stats.PlanMillis)
	if !r.asOf.IsZero() {
		fmt.Fprintf(b, "of the cluster as seen at %s\n", r.asOf.UTC().Format(time.RFC3339))
	}
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write the plan: %w", err)
	}
	return nil
}

func (r *Report) writeClaims(b *bufio.Writer) {
	if len(r.NewNodeClaims) == 0 {
		return
	}
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NEW NODECLAIM\tCHEAPEST\t$/H\tCPU\tMEMORY\tINSTANCE TYPES\tPODS")
	for i, c := range r.NewNodeClaims {
		o := c.CheapestOffering
		fmt.Fprintf(w, "%s #%d\t%s %s %s\t%s\t%s\t%s\t%s\t%s\n", c.NodePool, i+1, o.InstanceType, o.CapacityType, o.Zone, o.Price,
			c.Requests.Cpu(), c.Requests.Memory(), few(c.InstanceTypes, typesShown), few(c.Pods, podsShown))
	}
	w.Flush()
	fmt.Fprintln(b)
}

func (r *Report) writeNodes(b *bufio.Writer) {
	if len(r.ExistingNodes) == 0 {
		return
	}
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "EXISTING NODE\tPODS")
	for _, n := range r.ExistingNodes {
		fmt.Fprintf(w, "%s\t%s\n", n.Name, few(n.Pods, podsShown))
	}
	w.Flush()
	fmt.Fprintln(b)
}

func (r *Report) writeBuffers(b *bufio.Writer) {
	if len(r.Buffers) == 0 {
		return
	}
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CAPACITY BUFFER\tPODS\tON EXISTING\tON NEW\tNOWHERE\tREASON")
	for _, x := range r.Buffers {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%s\n", x.Name, x.Replicas, x.Existing, x.New, x.Unschedulable, x.Reason)
	}
	w.Flush()
	fmt.Fprintln(b)
}

// writeRefusals writes each reason once, with the pods it holds for.
func (r *Report) writeRefusals(b *bufio.Writer) {
	if len(r.Unschedulable) == 0 {
		return
	}
	var order []string
	pods := map[string][]string{}
	for _, u := range r.Unschedulable {
		if pods[u.Reason] == nil {
			order = append(order, u.Reason)
		}
		pods[u.Reason] = append(pods[u.Reason], u.Pod)
	}
	fmt.Fprintln(b, "REFUSED")
	for _, reason := range order {
		fmt.Fprintf(b, "%s\n    %s\n", few(pods[reason], podsShown), reason)
	}
	fmt.Fprintln(b)
}

// few joins the first n of a list and counts the rest.
func few(list []string, n int) string {
	if len(list) <= n {
		return strings.Join(list, ", ")
	}
	return strings.Join(slices.Concat(list[:n], []string{fmt.Sprintf("and %d more", len(list)-n)}), ", ")
}
