package provision

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/events"
	"millwright/planner/ledger"
)

var rewrite = flag.Bool("rewrite", false, "write the output into testdata")

// TestScripts runs testdata/*.txt: commands, a line "----", the output, an empty line, and so on.
//
//	types                            the small catalogue of cluster_test.go
//	pool NAME [key=value…]           weight, cpu, memory, nodes (limits), taint=k=v:Effect, label=k=v, require=KEY Op v,v
//	pod NAME [xN] [key=value…]       cpu, memory, any resource; select=k=v, tolerate=k, hostPort=N
//	node NAME [key=value…]           cpu, memory, pods; label=k=v, taint=k=v:Effect
//	apply                            YAML until the line "end"
//	reserve TYPE ZONE ID [N]         N free instances reserved; without N any number
//	copies POD xN                    N−1 more pods like POD: POD-01 …
//	bind POD NODE | delete KIND NAME | option NAME VALUE | fail TYPE ZONE CAPACITYTYPE | forward DURATION
//	create                           the NodeClaims of all planned claims are made
//	plan                             plans, prints, records
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txt"), func(t *testing.T) { runScript(t, f) })
	}
}

func runScript(t *testing.T, file string) {
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := &script{t: t, cluster: newCluster(), pods: map[string]*corev1.Pod{}}
	var out bytes.Buffer
	lines := strings.Split(string(src), "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		if line == "----" {
			out.WriteString("----\n" + s.out.String())
			s.out.Reset()
			for i++; i < len(lines) && lines[i] != ""; i++ {
			}
			if i < len(lines)-1 {
				out.WriteString("\n")
			}
			continue
		}
		if !(i == len(lines)-1 && line == "") {
			out.WriteString(line + "\n")
		}
		if line == "apply" {
			var doc []string
			for i++; lines[i] != "end"; i++ {
				doc = append(doc, lines[i])
				out.WriteString(lines[i] + "\n")
			}
			out.WriteString("end\n")
			s.apply(strings.Join(doc, "\n"))
			continue
		}
		s.run(line)
	}
	if *rewrite {
		if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if out.String() != string(src) {
		t.Errorf("output differs; run with -rewrite and look at the diff\n%s", out.String())
	}
}

type script struct {
	t       *testing.T
	cluster *cluster
	pods    map[string]*corev1.Pod
	out     bytes.Buffer
}

func (s *script) run(line string) {
	line, _, _ = strings.Cut(line, "#")
	f := strings.Fields(line)
	if len(f) == 0 {
		return
	}
	switch f[0] {
	case "types":
		s.cluster.catalogue()
	case "pool":
		s.pool(f[1], f[2:])
	case "pod":
		s.pod(f[1], f[2:])
	case "node":
		s.node(f[1], f[2:])
	case "reserve":
		s.reserve(f[1:])
	case "bind":
		s.cluster.put(bound(s.pods[f[1]], f[2]))
	case "delete":
		s.delete(f[1], f[2])
	case "copies":
		s.copies(f[1], f[2])
	case "option":
		s.option(f[1], f[2])
	case "fail":
		s.cluster.record(s.t, ledger.KindLaunchFailed, &ledger.LaunchFailed{Claim: "x", Class: "no-capacity", Unavailable: []ledger.FailedOffering{
			{InstanceType: f[1], Zone: f[2], CapacityType: f[3], Code: "InsufficientInstanceCapacity"}}})
	case "forward":
		d, err := time.ParseDuration(f[1])
		s.check(err)
		s.cluster.now = s.cluster.now.Add(d)
	case "create":
		s.create()
	case "plan":
		s.plan()
	default:
		s.t.Fatalf("unknown command %q", line)
	}
}

func (s *script) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func split(arg string) (string, string) {
	k, v, _ := strings.Cut(arg, "=")
	return k, v
}

func taintOf(text string) corev1.Taint {
	kv, effect, _ := strings.Cut(text, ":")
	k, v := split(kv)
	return corev1.Taint{Key: k, Value: v, Effect: corev1.TaintEffect(effect)}
}

func (s *script) pool(name string, args []string) {
	p := newPool(name)
	spec := &p.Spec.Template.Spec
	for i := 0; i < len(args); i++ {
		k, v := split(args[i])
		switch k {
		case "weight":
			n, err := strconv.Atoi(v)
			s.check(err)
			w := int32(n)
			p.Spec.Weight = &w
		case "taint":
			spec.Taints = append(spec.Taints, taintOf(v))
		case "label":
			lk, lv := split(v)
			if p.Spec.Template.Labels == nil {
				p.Spec.Template.Labels = map[string]string{}
			}
			p.Spec.Template.Labels[lk] = lv
		case "require":
			r := karpv1.NodeSelectorRequirementWithMinValues{Key: v, Operator: corev1.NodeSelectorOperator(args[i+1])}
			i++
			if i+1 < len(args) && !strings.Contains(args[i+1], "=") {
				i++
				r.Values = strings.Split(args[i], ",")
			}
			if i+1 < len(args) && strings.HasPrefix(args[i+1], "min=") {
				i++
				n, err := strconv.Atoi(strings.TrimPrefix(args[i], "min="))
				s.check(err)
				r.MinValues = &n
			}
			spec.Requirements = append(spec.Requirements, r)
		default:
			if p.Spec.Limits == nil {
				p.Spec.Limits = karpv1.Limits{}
			}
			p.Spec.Limits[corev1.ResourceName(k)] = amounts(map[string]string{k: v})[corev1.ResourceName(k)]
		}
	}
	s.cluster.put(p)
}

func (s *script) pod(name string, args []string) {
	count := 1
	if len(args) > 0 && args[0][0] == 'x' {
		n, err := strconv.Atoi(args[0][1:])
		s.check(err)
		count, args = n, args[1:]
	}
	for i := range count {
		n := name
		if count > 1 {
			n = fmt.Sprintf("%s-%02d", name, i)
		}
		s.onePod(newPod(n, nil), args)
	}
}

func (s *script) copies(name, times string) {
	n, err := strconv.Atoi(times[1:])
	s.check(err)
	for i := 1; i < n; i++ {
		p := s.pods[name].DeepCopy()
		p.Name, p.UID = fmt.Sprintf("%s-%02d", name, i), ""
		if s.pods[p.Name] == nil {
			s.pods[p.Name] = p
			s.cluster.put(p)
		}
	}
}

func (s *script) onePod(p *corev1.Pod, args []string) {
	requests := map[string]string{}
	for _, arg := range args {
		k, v := split(arg)
		switch k {
		case "select":
			lk, lv := split(v)
			if p.Spec.NodeSelector == nil {
				p.Spec.NodeSelector = map[string]string{}
			}
			p.Spec.NodeSelector[lk] = lv
		case "tolerate":
			p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: v, Operator: corev1.TolerationOpExists})
		case "hostPort":
			n, err := strconv.Atoi(v)
			s.check(err)
			p.Spec.Containers[0].Ports = append(p.Spec.Containers[0].Ports, corev1.ContainerPort{HostPort: int32(n), ContainerPort: int32(n)})
		case "label":
			lk, lv := split(v)
			if p.Labels == nil {
				p.Labels = map[string]string{}
			}
			p.Labels[lk] = lv
		default:
			requests[k] = v
		}
	}
	p.Spec.Containers[0].Resources.Requests = amounts(requests)
	s.pods[p.Name] = p
	s.cluster.put(p)
}

func (s *script) node(name string, args []string) {
	capacity, labels := map[string]string{"pods": "110"}, map[string]string{}
	var taints []corev1.Taint
	for _, arg := range args {
		k, v := split(arg)
		switch k {
		case "label":
			lk, lv := split(v)
			labels[lk] = lv
		case "taint":
			taints = append(taints, taintOf(v))
		default:
			capacity[k] = v
		}
	}
	n := newNode(name, capacity, labels)
	n.Spec.Taints = taints
	s.cluster.put(n)
}

// reserve adds an offering to a copy of the catalogue.
func (s *script) reserve(f []string) {
	cat := *s.cluster.world.RawCatalog("default")
	cat.InstanceTypes = slices.Clone(cat.InstanceTypes)
	r := &events.CatalogReservation{ID: f[2]}
	if len(f) > 3 {
		n, err := strconv.ParseInt(f[3], 10, 64)
		s.check(err)
		r.Free = &n
	}
	for i := range cat.InstanceTypes {
		if it := &cat.InstanceTypes[i]; it.Name == f[0] {
			it.Offerings = append(slices.Clone(it.Offerings), events.CatalogOffering{
				Zone: f[1], ZoneID: "id-" + f[1], CapacityType: karpv1.CapacityTypeReserved, Available: true, Reservation: r})
		}
	}
	s.cluster.putCatalog(&cat, &events.Prices{})
}

func (s *script) delete(kind, name string) {
	switch kind {
	case "pod":
		s.cluster.remove(s.pods[name])
		delete(s.pods, name)
	case "node":
		s.cluster.remove(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	case "pool":
		s.cluster.remove(newPool(name))
	default:
		s.t.Fatalf("delete %s", kind)
	}
}

func (s *script) option(name, value string) {
	switch name {
	case "preferences":
		s.cluster.options.PreferencePolicy = value
	case "minValues":
		s.cluster.options.MinValuesPolicy = value
	case "types":
		n, err := strconv.Atoi(value)
		s.check(err)
		s.cluster.options.InstanceTypesMax = n
	default:
		s.t.Fatalf("option %s", name)
	}
}

func (s *script) apply(doc string) {
	for part := range strings.SplitSeq(doc, "\n---\n") {
		var meta metav1.TypeMeta
		s.check(yaml.Unmarshal([]byte(part), &meta))
		switch meta.Kind {
		case "Pod":
			p := newPod("", nil)
			s.check(yaml.Unmarshal([]byte(part), p))
			p.UID = ""
			p.Namespace = "default"
			s.pods[p.Name] = p
			s.cluster.put(p)
		case "DaemonSet":
			s.object(part, &appsv1.DaemonSet{})
		case "PersistentVolumeClaim":
			s.object(part, &corev1.PersistentVolumeClaim{})
		case "PersistentVolume":
			s.object(part, &corev1.PersistentVolume{})
		case "StorageClass":
			s.object(part, &storagev1.StorageClass{})
		case "CSINode":
			s.object(part, &storagev1.CSINode{})
		case "NodePool":
			s.object(part, newPool(""))
		default:
			s.t.Fatalf("apply of a %q", meta.Kind)
		}
	}
}

func (s *script) object(doc string, obj metav1.Object) {
	s.check(yaml.Unmarshal([]byte(doc), obj))
	s.cluster.put(obj)
}

// plan prints what changed: claims with their price, placements, refusals.
func (s *script) plan() {
	before := s.cluster.ledger.Seq() + 1
	d, r := Plan(s.cluster.snapshot())
	if d == nil {
		s.printf("nothing changed: %d kept, %d refused, %d ignored\n", r.Kept, r.Refused, r.Ignored)
		return
	}
	if p, ok := d.Payload.(*ledger.ClaimWithdrawn); ok {
		s.printf("claim %s withdrawn: %s\n", s.claimIndex(p.Claim, before), p.Reason)
	}
	s.cluster.record(s.t, d.Kind, d.Payload, d.Advances...)
	p, ok := d.Payload.(*ledger.ProvisioningPlanned)
	if !ok {
		return
	}
	for _, prob := range r.Problems {
		s.printf("pool %s left out: %s: %s\n", prob.NodePool, prob.Reason, prob.Message)
	}
	for i, c := range p.Claims {
		s.content(fmt.Sprintf("claim %s#%d", c.NodePool, i), &c)
	}
	for _, w := range p.Widened {
		s.content("widened "+s.claimIndex(w.Claim, before), &w.Content)
	}
	for _, pl := range p.Placements {
		to := "node " + pl.Node
		if pl.Claim != "" {
			to = "claim " + s.claimIndex(pl.Claim, before)
		}
		s.printf("%s: %s\n", to, podNames(pl.Pods))
	}
	for _, ref := range p.Refused {
		s.printf("refused %s:\n", podNames(ref.Pods))
		for _, reason := range ref.Reasons {
			s.printf("  %s [%s] %s\n", reason.NodePool, reason.Constraint, reason.Message)
			s.printDetails(reason)
		}
	}
}

func (s *script) content(name string, c *ledger.PlannedClaim) {
	o := c.Cheapest
	s.printf("%s: %s %s %s $%d.%06d, %d types: %s\n", name, o.InstanceType, o.CapacityType, o.Zone,
		o.MicroUSDPerHour/1e6, o.MicroUSDPerHour%1e6, len(c.InstanceTypes), podNames(c.Pods))
	for _, q := range c.Requirements {
		if q.Key != corev1.LabelInstanceTypeStable && q.Key != karpv1.NodePoolLabelKey && !strings.HasSuffix(q.Key, "/ec2nodeclass") {
			s.printf("  %s %s %v", q.Key, q.Operator, q.Values)
			if q.MinValues != nil {
				s.printf(" min %d", *q.MinValues)
			}
			s.printf("\n")
		}
	}
}

// create makes all planned claims.
func (s *script) create() {
	for _, c := range s.cluster.ledger.Claims() {
		if c.State == ledger.ClaimPlanned {
			s.cluster.record(s.t, ledger.KindClaimCreated, &ledger.ClaimCreated{Claim: c.Name, UID: types.UID("uid-" + c.Name), Record: c.WidenedSeq})
		}
	}
}

func (s *script) printDetails(r ledger.Refusal) {
	if len(r.Eliminated) > 0 {
		var parts []string
		for k, n := range r.Eliminated {
			parts = append(parts, fmt.Sprintf("%s %d", k, n))
		}
		sort.Strings(parts)
		s.printf("    eliminated by %s\n", strings.Join(parts, ", "))
	}
	if r.Closest != "" {
		s.printf("    closest: %s\n", r.Closest)
	}
}

// claimIndex prints "pool#index of record n" instead of a hash.
func (s *script) claimIndex(name string, before uint64) string {
	for seq := uint64(1); seq < before; seq++ {
		for i := range 100 {
			c := s.cluster.ledger.Claim(name)
			if c != nil && ledger.ClaimName(s.cluster.ledger.LogID(), c.NodePool, seq, i) == name {
				return fmt.Sprintf("%s#%d of record %d", c.NodePool, i, seq)
			}
		}
	}
	return name
}

func (s *script) printf(format string, args ...any) { fmt.Fprintf(&s.out, format, args...) }

func podNames(pods []ledger.PodRef) string {
	names := make([]string, len(pods))
	for i, p := range pods {
		names[i] = p.Name
	}
	if len(names) > 6 {
		return fmt.Sprintf("%s … %s (%d pods)", names[0], names[len(names)-1], len(names))
	}
	return strings.Join(names, " ")
}
