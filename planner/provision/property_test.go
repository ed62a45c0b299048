package provision

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/ledger"
)

// scene is a generated cluster: everything but its World.
type scene struct {
	pools []*karpv1.NodePool
	nodes []*corev1.Node
	pods  []*corev1.Pod // pending ones
	bound []*corev1.Pod
}

func (s *scene) objects() []metav1.Object {
	var all []metav1.Object
	for _, p := range s.pools {
		all = append(all, p)
	}
	for _, n := range s.nodes {
		all = append(all, n)
	}
	for _, p := range slices.Concat(s.pods, s.bound) {
		all = append(all, p)
	}
	return append(all, newDaemonSet("agent", map[string]string{"cpu": "150m"}))
}

func (s *scene) cluster(order *rand.Rand) *cluster {
	c := newCluster()
	c.catalogue()
	objects := s.objects()
	if order != nil {
		order.Shuffle(len(objects), func(i, j int) { objects[i], objects[j] = objects[j], objects[i] })
	}
	c.put(objects...)
	return c
}

var sceneKeys = map[string][]string{
	corev1.LabelTopologyZone: {"zone-a", "zone-b", "zone-z"}, corev1.LabelArchStable: {"amd64", "arm64"},
	karpv1.CapacityTypeLabelKey: {"spot", "on-demand"}, awsv1.LabelInstanceFamily: {"c5", "m5", "r5", "x9"},
	awsv1.LabelInstanceCPU: {"2", "4", "8"}, "team": {"red", "blue"},
}

var sceneKeyNames = []string{corev1.LabelTopologyZone, corev1.LabelArchStable, karpv1.CapacityTypeLabelKey, awsv1.LabelInstanceFamily, awsv1.LabelInstanceCPU, "team"}

func drawExpression(t *rapid.T) corev1.NodeSelectorRequirement {
	key := rapid.SampledFrom(sceneKeyNames).Draw(t, "key")
	op := rapid.SampledFrom([]corev1.NodeSelectorOperator{"In", "In", "NotIn", "Exists", "DoesNotExist", "Gt"}).Draw(t, "op")
	r := corev1.NodeSelectorRequirement{Key: key, Operator: op}
	switch op {
	case "In", "NotIn":
		r.Values = rapid.SliceOfNDistinct(rapid.SampledFrom(sceneKeys[key]), 1, 2, func(s string) string { return s }).Draw(t, "values")
	case "Gt":
		r.Key, r.Values = awsv1.LabelInstanceCPU, []string{rapid.SampledFrom([]string{"1", "3", "7"}).Draw(t, "n")}
	}
	return r
}

func drawTerms(t *rapid.T, name string, maxTerms int) []corev1.NodeSelectorTerm {
	var terms []corev1.NodeSelectorTerm
	for range rapid.IntRange(0, maxTerms).Draw(t, name) {
		var term corev1.NodeSelectorTerm
		for range rapid.IntRange(1, 2).Draw(t, "expressions") {
			term.MatchExpressions = append(term.MatchExpressions, drawExpression(t))
		}
		terms = append(terms, term)
	}
	return terms
}

func drawTaints(t *rapid.T) []corev1.Taint {
	var taints []corev1.Taint
	for _, k := range []string{"one", "two"} {
		if rapid.IntRange(0, 3).Draw(t, "taint") == 0 {
			taints = append(taints, corev1.Taint{Key: k, Value: "x", Effect: rapid.SampledFrom([]corev1.TaintEffect{"NoSchedule", "PreferNoSchedule", "NoExecute"}).Draw(t, "effect")})
		}
	}
	return taints
}

func drawPod(t *rapid.T, name string) *corev1.Pod {
	p := newPod(name, map[string]string{
		"cpu":    rapid.SampledFrom([]string{"100m", "500m", "1500m", "3", "7", "20"}).Draw(t, "cpu"),
		"memory": rapid.SampledFrom([]string{"100Mi", "1Gi", "6Gi", "30Gi"}).Draw(t, "memory"),
	})
	if rapid.IntRange(0, 2).Draw(t, "selects") == 0 {
		k := rapid.SampledFrom(sceneKeyNames).Draw(t, "key")
		p.Spec.NodeSelector = map[string]string{k: rapid.SampledFrom(sceneKeys[k]).Draw(t, "value")}
	}
	aff := &corev1.NodeAffinity{}
	if terms := drawTerms(t, "required", 2); len(terms) > 0 {
		aff.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: terms}
	}
	for i, term := range drawTerms(t, "preferred", 2) {
		aff.PreferredDuringSchedulingIgnoredDuringExecution = append(aff.PreferredDuringSchedulingIgnoredDuringExecution, corev1.PreferredSchedulingTerm{Weight: int32(1 + i), Preference: term})
	}
	p.Spec.Affinity = &corev1.Affinity{NodeAffinity: aff}
	for _, k := range []string{"one", "two"} {
		if rapid.Bool().Draw(t, "tolerates") {
			p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: k, Operator: corev1.TolerationOpExists})
		}
	}
	if rapid.IntRange(0, 5).Draw(t, "port") == 0 {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80, ContainerPort: 80}}
	}
	return p
}

func drawScene(t *rapid.T) *scene {
	s := &scene{}
	for i := range rapid.IntRange(1, 3).Draw(t, "pools") {
		p := newPool(fmt.Sprintf("pool-%d", i))
		w := int32(rapid.IntRange(1, 2).Draw(t, "weight"))
		p.Spec.Weight = &w
		p.Spec.Template.Spec.Taints = drawTaints(t)
		for range rapid.IntRange(0, 2).Draw(t, "requirements") {
			x := drawExpression(t)
			p.Spec.Template.Spec.Requirements = append(p.Spec.Template.Spec.Requirements, karpv1.NodeSelectorRequirementWithMinValues{Key: x.Key, Operator: x.Operator, Values: x.Values})
		}
		if rapid.Bool().Draw(t, "limited") {
			p.Spec.Limits = karpv1.Limits(amounts(map[string]string{"cpu": strconv.Itoa(rapid.IntRange(0, 40).Draw(t, "limit")), "nodes": strconv.Itoa(rapid.IntRange(0, 4).Draw(t, "nodes"))}))
		}
		s.pools = append(s.pools, p)
	}
	for i := range rapid.IntRange(0, 4).Draw(t, "nodes") {
		labels := map[string]string{corev1.LabelTopologyZone: "zone-a", karpv1.NodePoolLabelKey: "pool-0"}
		if rapid.Bool().Draw(t, "team") {
			labels["team"] = "red"
		}
		n := newNode(fmt.Sprintf("node-%d", i), map[string]string{"cpu": "4", "memory": "8Gi", "pods": "5"}, labels)
		n.Spec.Taints = drawTaints(t)
		s.nodes = append(s.nodes, n)
		if rapid.Bool().Draw(t, "busy") {
			s.bound = append(s.bound, bound(drawPod(t, fmt.Sprintf("bound-%d", i)), n.Name))
		}
	}
	for i := range rapid.IntRange(0, 12).Draw(t, "pods") {
		p := drawPod(t, fmt.Sprintf("pod-%02d", i))
		if i > 0 && rapid.IntRange(0, 2).Draw(t, "replica") > 0 {
			p.Spec = *s.pods[i-1].Spec.DeepCopy()
		}
		s.pods = append(s.pods, p)
	}
	return s
}

func TestPlansAreValidStableAndIndependentOfOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawScene(t)
		c := s.cluster(nil)
		c.confirmsItself(t)
		d, round := Plan(c.snapshot())
		other, _ := Plan(s.cluster(rand.New(rand.NewSource(int64(rapid.Int32().Draw(t, "order"))))).snapshot())
		if a, b := encode(d), encode(other); a != b {
			t.Fatalf("the order of the objects changed the plan:\n%s\n%s", a, b)
		}
		if len(round.Verdicts) != len(s.pods) {
			t.Fatalf("%d verdicts on %d pods", len(round.Verdicts), len(s.pods))
		}
		if d == nil {
			if len(s.pods) > 0 {
				t.Fatal("no decision on pods without a verdict")
			}
			return
		}
		v := &verifier{t: t, scene: s, cluster: c}
		v.verify(d.Payload.(*ledger.ProvisioningPlanned))
		if err := c.ledger.Apply(ledger.Entry{Seq: c.ledger.Seq() + 1, Time: c.now, Now: c.now, Service: "test", Mode: ledger.ModeActive, Kind: d.Kind, Payload: d.Payload}); err != nil {
			t.Fatal(err)
		}
		if again, r := Plan(c.snapshot()); again != nil {
			t.Fatalf("the same round decided again: %s (%+v)", encode(again), r)
		}
	})
}

func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// verifier checks a plan by the rules of Kubernetes, sharing no code with the solver.
type verifier struct {
	t       *rapid.T
	scene   *scene
	cluster *cluster
}

func (v *verifier) verify(p *ledger.ProvisioningPlanned) {
	seen := map[string]int{}
	for _, c := range p.Claims {
		v.count(seen, c.Pods)
		v.claim(&c)
	}
	for _, pl := range p.Placements {
		v.count(seen, pl.Pods)
		v.placement(&pl)
	}
	for _, r := range p.Refused {
		v.count(seen, r.Pods)
		if len(r.Reasons) == 0 || r.Reasons[0].Message == "" {
			v.t.Fatalf("refused without reason: %+v", r)
		}
		v.refused(p, &r)
	}
	for _, pod := range v.scene.pods {
		if seen[pod.Name] != 1 {
			v.t.Fatalf("pod %s has %d verdicts", pod.Name, seen[pod.Name])
		}
	}
	v.limits(p)
}

func (v *verifier) count(seen map[string]int, pods []ledger.PodRef) {
	for _, p := range pods {
		seen[p.Name]++
	}
}

func (v *verifier) pod(name string) *corev1.Pod {
	for _, p := range slices.Concat(v.scene.pods, v.scene.bound) {
		if p.Name == name {
			return p
		}
	}
	v.t.Fatalf("no pod %s", name)
	return nil
}

func (v *verifier) pool(name string) *karpv1.NodePool {
	for _, p := range v.scene.pools {
		if p.Name == name {
			return p
		}
	}
	v.t.Fatalf("no pool %s", name)
	return nil
}

// claim: each node the claim may become must hold and suit all its pods.
func (v *verifier) claim(c *ledger.PlannedClaim) {
	pool := v.pool(c.NodePool)
	if len(c.Pods) == 0 || len(c.InstanceTypes) == 0 {
		v.t.Fatalf("claim without pods or types: %+v", c)
	}
	offered := 0
	for _, name := range c.InstanceTypes {
		for _, o := range v.offerings(name) {
			labels := v.labels(name, o)
			for k, val := range c.Labels {
				labels[k] = val
			}
			if !entriesAllow(c.Requirements, labels) {
				continue
			}
			offered++
			v.fits(c.Pods, name, agentCPU(pool))
			for _, ref := range c.Pods {
				v.suits(v.pod(ref.Name), labels, pool.Spec.Template.Spec.Taints, "claim of "+c.NodePool)
			}
		}
	}
	if offered == 0 {
		v.t.Fatalf("claim that nothing is offered for: %+v", c)
	}
	v.ports(c.Pods, nil)
}

type zonalOffer struct{ zone, capacityType string }

func (v *verifier) offerings(string) []zonalOffer {
	var list []zonalOffer
	for _, z := range []string{"zone-a", "zone-b", "zone-c"} {
		list = append(list, zonalOffer{z, "spot"}, zonalOffer{z, "on-demand"})
	}
	return list
}

func (v *verifier) labels(name string, o zonalOffer) map[string]string {
	family, size := name[:2], name[3:]
	return map[string]string{
		corev1.LabelInstanceTypeStable: name, corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux",
		awsv1.LabelInstanceFamily: family, awsv1.LabelInstanceSize: size, awsv1.LabelInstanceCPU: strconv.Itoa(int(cpus(name))),
		corev1.LabelTopologyZone: o.zone, awsv1.LabelTopologyZoneID: "id-" + o.zone, karpv1.CapacityTypeLabelKey: o.capacityType,
	}
}

func cpus(name string) int64 {
	return map[string]int64{"large": 2, "xlarge": 4, "2xlarge": 8, "4xlarge": 16}[name[3:]]
}

func (v *verifier) sum(pods []ledger.PodRef) (cpu, memory int64) {
	for _, ref := range pods {
		r := v.pod(ref.Name).Spec.Containers[0].Resources.Requests
		cpu += r.Cpu().MilliValue()
		memory += r.Memory().Value()
	}
	return cpu, memory
}

// agentCPU is what the DaemonSet, which tolerates nothing, takes of each node of a pool.
func agentCPU(pool *karpv1.NodePool) int64 {
	for _, t := range pool.Spec.Template.Spec.Taints {
		if t.Effect != corev1.TaintEffectPreferNoSchedule {
			return 0
		}
	}
	return 150
}

func (v *verifier) fits(pods []ledger.PodRef, name string, daemons int64) {
	cpu, memory := v.sum(pods)
	perCPU := map[string]int64{"c5": 2, "m5": 4, "r5": 8}[name[:2]]
	if cpu+daemons > cpus(name)*1000-100 || memory > cpus(name)*perCPU<<30-512<<20 || int64(len(pods)) > 29*cpus(name)/2 {
		v.t.Fatalf("%s cannot hold %v: %d millicores and %d bytes", name, pods, cpu, memory)
	}
}

func (v *verifier) suits(p *corev1.Pod, labels map[string]string, taints []corev1.Taint, where string) {
	for k, val := range p.Spec.NodeSelector {
		if labels[k] != val {
			v.t.Fatalf("%s on %s: nodeSelector %s=%s, labels %v", p.Name, where, k, val, labels)
		}
	}
	if !requiredAffinity(p, labels) {
		v.t.Fatalf("%s on %s: affinity %+v, labels %v", p.Name, where, p.Spec.Affinity.NodeAffinity, labels)
	}
	for _, taint := range taints {
		ok := taint.Effect == corev1.TaintEffectPreferNoSchedule
		for _, tol := range p.Spec.Tolerations {
			ok = ok || tol.Key == taint.Key
		}
		if !ok {
			v.t.Fatalf("%s on %s does not tolerate %v", p.Name, where, taint)
		}
	}
}

func requiredAffinity(p *corev1.Pod, labels map[string]string) bool {
	req := p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if req == nil {
		return true
	}
	return slices.ContainsFunc(req.NodeSelectorTerms, func(term corev1.NodeSelectorTerm) bool {
		for _, x := range term.MatchExpressions {
			if !expressionAllows(string(x.Operator), x.Values, labels, x.Key) {
				return false
			}
		}
		return true
	})
}

func expressionAllows(op string, values []string, labels map[string]string, key string) bool {
	val, has := labels[key]
	switch op {
	case "In":
		return has && slices.Contains(values, val)
	case "NotIn":
		return !slices.Contains(values, val)
	case "Exists":
		return has
	case "DoesNotExist":
		return !has
	}
	n, err := strconv.Atoi(val)
	m, _ := strconv.Atoi(values[0])
	if err != nil {
		return false
	}
	return map[string]bool{"Gt": n > m, "Lt": n < m, "Gte": n >= m, "Lte": n <= m}[op]
}

// entriesAllow reports that a node with these labels is one the claim allows.
func entriesAllow(entries []karpv1.NodeSelectorRequirementWithMinValues, labels map[string]string) bool {
	for _, e := range entries {
		if _, has := labels[e.Key]; has && !expressionAllows(string(e.Operator), e.Values, labels, e.Key) {
			return false
		}
	}
	return true
}

func (v *verifier) ports(pods []ledger.PodRef, on []*corev1.Pod) {
	n := 0
	for _, ref := range pods {
		on = append(on, v.pod(ref.Name))
	}
	for _, p := range on {
		n += len(p.Spec.Containers[0].Ports)
	}
	if n > 1 {
		v.t.Fatalf("host port 80 taken %d times by %v", n, pods)
	}
}

func (v *verifier) placement(pl *ledger.Placement) {
	for _, n := range v.scene.nodes {
		if n.Name != pl.Node {
			continue
		}
		var on []*corev1.Pod
		cpu, memory := v.sum(pl.Pods)
		for _, b := range v.scene.bound {
			if b.Spec.NodeName == n.Name {
				on = append(on, b)
				cpu += b.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
				memory += b.Spec.Containers[0].Resources.Requests.Memory().Value()
			}
		}
		if cpu > n.Status.Allocatable.Cpu().MilliValue() || memory > n.Status.Allocatable.Memory().Value() || len(on)+len(pl.Pods) > 5 {
			v.t.Fatalf("node %s cannot hold %v", n.Name, pl.Pods)
		}
		v.ports(pl.Pods, on)
		for _, ref := range pl.Pods {
			v.suits(v.pod(ref.Name), n.Labels, n.Spec.Taints, n.Name)
		}
		return
	}
	v.t.Fatalf("placement on an unknown node: %+v", pl)
}

// limits: what runs and what is planned, each claim at its largest, stays within.
func (v *verifier) limits(p *ledger.ProvisioningPlanned) {
	for _, pool := range v.scene.pools {
		if pool.Spec.Limits == nil {
			continue
		}
		var cpu, nodes int64
		for _, n := range v.scene.nodes {
			if n.Labels[karpv1.NodePoolLabelKey] == pool.Name {
				cpu, nodes = cpu+n.Status.Capacity.Cpu().Value(), nodes+1
			}
		}
		planned := false
		for _, c := range p.Claims {
			if c.NodePool != pool.Name {
				continue
			}
			planned = true
			var most int64
			for _, name := range c.InstanceTypes {
				most = max(most, cpus(name))
			}
			cpu, nodes = cpu+most, nodes+1
		}
		limitCPU, limitNodes := pool.Spec.Limits["cpu"], pool.Spec.Limits["nodes"]
		if planned && (cpu > limitCPU.Value() || nodes > limitNodes.Value()) {
			v.t.Fatalf("pool %s: %d CPU and %d nodes exceed %v", pool.Name, cpu, nodes, pool.Spec.Limits)
		}
	}
}

// refused: no unlimited pool offers a node of its own that would do for the pod alone.
func (v *verifier) refused(plan *ledger.ProvisioningPlanned, r *ledger.Refused) {
	for _, ref := range r.Pods {
		p := v.pod(ref.Name)
		for _, pool := range v.scene.pools {
			if pool.Spec.Limits == nil && v.couldOpen(pool, p) {
				v.t.Fatalf("pod %s is refused although %s could make a node for it: %+v\n%+v", p.Name, pool.Name, r.Reasons, p.Spec)
			}
		}
	}
}

func (v *verifier) couldOpen(pool *karpv1.NodePool, p *corev1.Pod) bool {
	for _, taint := range pool.Spec.Template.Spec.Taints {
		if taint.Effect != corev1.TaintEffectPreferNoSchedule && !slices.ContainsFunc(p.Spec.Tolerations, func(t corev1.Toleration) bool { return t.Key == taint.Key }) {
			return false
		}
	}
	r := p.Spec.Containers[0].Resources.Requests
	for _, t := range v.cluster.world.Catalog("default").Types {
		perCPU := map[string]int64{"c5": 2, "m5": 4, "r5": 8}[t.Name[:2]]
		if r.Cpu().MilliValue()+agentCPU(pool) > cpus(t.Name)*1000-100 || r.Memory().Value() > cpus(t.Name)*perCPU<<30-512<<20 {
			continue
		}
		for _, o := range v.offerings(t.Name) {
			labels := v.labels(t.Name, o)
			if v.poolAllows(pool, labels) && selectorAllows(p, labels) && requiredAffinity(p, labels) {
				return true
			}
		}
	}
	return false
}

// poolAllows leaves out the pool's own "team", which may become any allowed value: such pods are judged
// only on what nodes certainly have.
func (v *verifier) poolAllows(pool *karpv1.NodePool, labels map[string]string) bool {
	for _, e := range pool.Spec.Template.Spec.Requirements {
		if !expressionAllows(string(e.Operator), e.Values, labels, e.Key) {
			return false
		}
	}
	return true
}

func selectorAllows(p *corev1.Pod, labels map[string]string) bool {
	for k, val := range p.Spec.NodeSelector {
		if labels[k] != val {
			return false
		}
	}
	return true
}
