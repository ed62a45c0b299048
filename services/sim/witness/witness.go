// Package witness keeps what happens in a simulated run, as the simulated API server, EC2 and users have it,
// and asks of each launch, removal and refusal whether its story (audit.Why, what `millctl why` prints) is
// true: which node, which pods, which reason, which price, which instance, which record.
//
// It shares nothing with what it checks: it knows the objects of the cluster, the instances of the cloud and
// the texts of the answers, and no record, Ledger, World or planner.
package witness

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/events"
	"millwright/services/internal/ec2"
	"millwright/services/sim/cloud"
	"millwright/services/sim/cluster"
	"millwright/services/sim/stage"
)

// Witness of one run.
type Witness struct {
	*stage.Stage
	launches []*launch
	// claims by UID, launches by instance, nodes by name: each has a name of its own. pods by UID.
	claims     map[string]*claim
	byInstance map[string]*launch
	nodes      map[string]*node
	pods       map[string]*pod
	markets    []market
	shortages  []shortage
}

// claim is a NodeClaim that is there or was.
type claim struct {
	name, pool string
	created    time.Time
	// expires is nil for never.
	expires *time.Duration
	// instance that its status named.
	instance string
	// deleted is who asked first that it goes, and when; "" is a user, a controller, or its owner's deletion.
	deletedBy string
	deletedAt time.Time
}

// launch of an instance, and its end.
type launch struct {
	cloud.Instance
	// uid of its claim by the launch tag; name by the other one.
	uid, name string
	// endedBy is the service that asked EC2 to end it first; "" is EC2 itself.
	endedBy string
	endedAt time.Time
}

// node that is there or was.
type node struct {
	name, instance string
	// registered and initialized are when it first had these labels.
	registered, initialized time.Time
	// marks are the commands that took it, as the disruptor annotated and tainted it; who only empties it
	// leaves the annotation of the plan that bought it.
	marks []mark
	// deletedBy and deletedAt as of a claim; deletedAt is zero while it stays.
	deletedBy string
	deletedAt time.Time
	// evicted are the pods that the terminator had leave it.
	evicted []eviction
}

// mark of a command: the record that its annotation names.
type mark struct {
	seq uint64
	at  time.Time
	// steady are the pods that were there for longer than lookback, most those that were there within it.
	steady, most int
}

type eviction struct {
	pod *pod
	at  time.Time
}

// pod that is there or was.
type pod struct {
	key, uid, app string
	// daemon: of a DaemonSet. protected: no command moves it.
	daemon, protected bool
	created           time.Time
	// unplaced is when kube-scheduler first said that no node takes it: before that nobody plans for it.
	unplaced    time.Time
	node        string
	bound, gone time.Time
}

// market is in force from a time.
type market struct {
	from    time.Time
	percent int64
	without string
}

// shortage is a fleet's answer about one offering.
type shortage struct {
	offering cloud.Offering
	code     string
	at       time.Time
	// tag is of the launch, uid of its claim.
	tag, uid string
}

// lookback is how old what a decision relied on may be when its effect is seen.
const lookback = 45 * time.Second

// New returns a witness who has seen nothing yet. acting says which service a change is an effect of; "" for
// none.
func New(s *stage.Stage, acting func() string) *Witness {
	w := &Witness{Stage: s, claims: map[string]*claim{}, byInstance: map[string]*launch{}, nodes: map[string]*node{}, pods: map[string]*pod{}}
	w.Priced(nil)
	s.Cluster.Watch(func(kind events.Kind, before, after cluster.Object) { w.written(kind, before, after, acting()) })
	s.Cloud.Watch(func(i *cloud.Instance) { w.moved(i, acting()) })
	return w
}

// Priced notes the market that is in force from now on; nil: the one of the beginning.
func (w *Witness) Priced(m *cloud.Market) {
	x := market{from: w.Clock.Now(), percent: 100}
	if m != nil {
		x.percent, x.without = m.Percent, m.Without
	}
	w.markets = append(w.markets, x)
}

// Answered notes what a fleet did not get.
func (w *Witness) Answered(in *awsec2.CreateFleetInput, out ec2.FleetResult) {
	tag := tagOf(in)
	for _, e := range out.Errors {
		x := shortage{cloud.Offering{InstanceType: e.InstanceType, Zone: e.Zone, CapacityType: e.CapacityType}, e.Code, w.Clock.Now(), tag, uidOf(tag)}
		if !slices.ContainsFunc(w.shortages, func(y shortage) bool { return y.tag == x.tag && y.offering == x.offering }) {
			w.shortages = append(w.shortages, x)
		}
	}
}

func tagOf(in *awsec2.CreateFleetInput) string {
	for _, s := range in.TagSpecifications {
		for _, t := range s.Tags {
			if *t.Key == awsv1.TagLaunch {
				return *t.Value
			}
		}
	}
	return ""
}

// uidOf is the UID of the claim in a launch tag, which is log/uid/attempt.
func uidOf(tag string) string {
	_, rest, _ := strings.Cut(tag, "/")
	uid, _, _ := strings.Cut(rest, "/")
	return uid
}

func (w *Witness) moved(i *cloud.Instance, by string) {
	l := w.byInstance[i.ID]
	if l == nil {
		l = &launch{Instance: *i, uid: uidOf(i.Tags[awsv1.TagLaunch]), name: i.Tags[awsv1.TagNodeClaim]}
		w.byInstance[i.ID] = l
		w.launches = append(w.launches, l)
	}
	if i.Ending() && l.endedAt.IsZero() {
		l.endedAt, l.endedBy = w.Clock.Now(), by
	}
}

func (w *Witness) written(kind events.Kind, before, after cluster.Object, by string) {
	switch kind {
	case events.KindNodeClaim:
		w.claimWritten(before, after, by)
	case events.KindNode:
		w.nodeWritten(before, after, by)
	case events.KindPod:
		w.podWritten(before, after, by)
	}
}

func (w *Witness) claimWritten(before, after cluster.Object, by string) {
	o, there := after.(*karpv1.NodeClaim)
	if !there {
		o = before.(*karpv1.NodeClaim)
	}
	c := w.claims[string(o.UID)]
	if c == nil {
		c = &claim{name: o.Name, created: o.CreationTimestamp.Time, expires: o.Spec.ExpireAfter.Duration}
		w.claims[string(o.UID)] = c
	}
	if pool := o.Labels[karpv1.NodePoolLabelKey]; c.pool == "" {
		c.pool = pool
	}
	if at := strings.LastIndexByte(o.Status.ProviderID, '/'); at >= 0 {
		c.instance = o.Status.ProviderID[at+1:]
	}
	if c.deletedAt.IsZero() && (!there || o.DeletionTimestamp != nil) {
		c.deletedAt, c.deletedBy = w.Clock.Now(), by
	}
}

func (w *Witness) nodeWritten(before, after cluster.Object, by string) {
	o, there := after.(*corev1.Node)
	if !there {
		o = before.(*corev1.Node)
	}
	n := w.nodes[o.Name]
	if n == nil {
		n = &node{name: o.Name, instance: o.Spec.ProviderID[strings.LastIndexByte(o.Spec.ProviderID, '/')+1:]}
		w.nodes[o.Name] = n
	}
	if n.registered.IsZero() && o.Labels[karpv1.NodeRegisteredLabelKey] == "true" {
		n.registered = w.Clock.Now()
	}
	if n.initialized.IsZero() && o.Labels[karpv1.NodeInitializedLabelKey] == "true" {
		n.initialized = w.Clock.Now()
	}
	if n.deletedAt.IsZero() && (!there || o.DeletionTimestamp != nil) {
		n.deletedAt, n.deletedBy = w.Clock.Now(), by
	}
	tainted := slices.ContainsFunc(o.Spec.Taints, func(t corev1.Taint) bool { return t.Key == karpv1.DisruptedTaintKey })
	_, record, _ := strings.Cut(o.Annotations[karpv1.RecordAnnotationKey], "/")
	seq, err := strconv.ParseUint(record, 10, 64)
	if by == "disruptor" && err == nil && tainted && (len(n.marks) == 0 || n.marks[len(n.marks)-1].seq != seq) {
		n.marks = append(n.marks, w.markOf(n, seq))
	}
}

// markOf counts the pods of a node that a command takes now.
func (w *Witness) markOf(n *node, seq uint64) mark {
	m := mark{seq: seq, at: w.Clock.Now()}
	for _, p := range w.pods {
		if p.node != n.name || p.daemon || !p.gone.IsZero() && m.at.Sub(p.gone) > lookback {
			continue
		}
		m.most++
		if p.gone.IsZero() && !p.protected && m.at.Sub(p.bound) > lookback {
			m.steady++
		}
	}
	return m
}

func (w *Witness) podWritten(before, after cluster.Object, by string) {
	o, there := after.(*corev1.Pod)
	if !there {
		o = before.(*corev1.Pod)
	}
	p := w.pods[string(o.UID)]
	if p == nil {
		owner := metav1.GetControllerOf(o)
		p = &pod{key: o.Namespace + "/" + o.Name, uid: string(o.UID), app: o.Labels["app"], created: w.Clock.Now(), daemon: owner != nil && owner.Kind == "DaemonSet"}
		w.pods[p.uid] = p
	}
	if p.unplaced.IsZero() && slices.ContainsFunc(o.Status.Conditions, func(c corev1.PodCondition) bool { return c.Reason == corev1.PodReasonUnschedulable }) {
		p.unplaced = w.Clock.Now()
	}
	p.protected = p.protected || o.Annotations[karpv1.DoNotDisruptAnnotationKey] != ""
	if p.node == "" && o.Spec.NodeName != "" {
		p.node, p.bound = o.Spec.NodeName, w.Clock.Now()
	}
	leaving := !there || o.DeletionTimestamp != nil
	if leaving && p.gone.IsZero() {
		p.gone = w.Clock.Now()
		if n := w.nodes[p.node]; n != nil && by == "terminator" && !p.daemon {
			n.evicted = append(n.evicted, eviction{p, p.gone})
		}
	}
}

// nodeOf an instance; nil if none joined.
func (w *Witness) nodeOf(instance string) *node {
	for _, n := range w.nodes {
		if n.instance == instance {
			return n
		}
	}
	return nil
}

// prices that an offering had within some time before a moment, in micro USD per hour; 0 where it had none,
// and of what was reserved, which is paid for already.
func (w *Witness) prices(l *launch, at time.Time, within time.Duration) (list []int64) {
	for i, m := range w.markets {
		if m.from.After(at.Add(stage.ClocksApart)) || i+1 < len(w.markets) && at.Sub(w.markets[i+1].from) > within {
			continue
		}
		list = append(list, m.price(l))
	}
	return list
}

func (m market) price(l *launch) int64 {
	if l.InstanceType == m.without || l.CapacityType == karpv1.CapacityTypeReserved {
		return 0
	}
	onDemand := cloud.Price(cloud.Offering{InstanceType: l.InstanceType, CapacityType: karpv1.CapacityTypeOnDemand}) * m.percent / 100
	if l.CapacityType != karpv1.CapacityTypeSpot {
		return onDemand
	}
	return onDemand*4/10 + int64(slices.Index(cloud.Zones, l.Zone))*100
}

func (w *Witness) sortedNodes() (list []*node) {
	for _, name := range slices.Sorted(maps.Keys(w.nodes)) {
		list = append(list, w.nodes[name])
	}
	return list
}

func (w *Witness) sortedPods() (list []*pod) {
	for _, uid := range slices.Sorted(maps.Keys(w.pods)) {
		list = append(list, w.pods[uid])
	}
	return list
}
