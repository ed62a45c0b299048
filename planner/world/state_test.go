package world

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	bufferv1beta1 "millwright/api/autoscaling/v1beta1"
	karpv1 "millwright/api/karpenter/v1"
	karpv1alpha1 "millwright/api/karpenter/v1alpha1"
	awsv1 "millwright/api/karpenteraws/v1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/events"
	"millwright/planner/catalog"
	"millwright/planner/version"
)

// filled returns an object of each kind, with a different value in each of its fields.
func filled() map[events.Kind]any {
	f := &filler{}
	objects := map[events.Kind]any{
		events.KindPod: &corev1.Pod{}, events.KindNode: &corev1.Node{}, events.KindNodeClaim: &karpv1.NodeClaim{},
		events.KindNodePool: &karpv1.NodePool{}, events.KindEC2NodeClass: &awsv1.EC2NodeClass{}, events.KindDaemonSet: &appsv1.DaemonSet{},
		events.KindPodDisruptionBudget: &policyv1.PodDisruptionBudget{}, events.KindPersistentVolumeClaim: &corev1.PersistentVolumeClaim{},
		events.KindPersistentVolume: &corev1.PersistentVolume{}, events.KindStorageClass: &storagev1.StorageClass{},
		events.KindCSINode: &storagev1.CSINode{}, events.KindVolumeAttachment: &storagev1.VolumeAttachment{}, events.KindNamespace: &corev1.Namespace{},
		events.KindPriorityClass: &schedulingv1.PriorityClass{}, events.KindNodeOverlay: &karpv1alpha1.NodeOverlay{},
		events.KindDisruptionPolicy: &mwv1alpha1.DisruptionPolicy{}, events.KindCatalog: &events.CatalogRef{},
		events.KindPrices: &events.Prices{}, events.KindInstanceState: &events.InstanceState{}, events.KindInterruption: &events.Interruption{},
		events.KindCapacityBuffer: &bufferv1beta1.CapacityBuffer{}, events.KindPodTemplate: &corev1.PodTemplate{},
		events.KindDeployment: &appsv1.Deployment{}, events.KindStatefulSet: &appsv1.StatefulSet{}, events.KindReplicaSet: &appsv1.ReplicaSet{},
	}
	for _, k := range slices.Concat(events.KubeKinds(), events.AWSKinds()) {
		if objects[k] == nil {
			panic("no object of kind " + k.String())
		}
		f.fill(reflect.ValueOf(objects[k]).Elem(), 0)
	}
	objects[events.KindPrices].(*events.Prices).Entries[0].CapacityType = karpv1.CapacityTypeSpot
	ref := objects[events.KindCatalog].(*events.CatalogRef)
	ref.Catalog = &events.Catalog{}
	f.fill(reflect.ValueOf(ref.Catalog).Elem(), 0)
	pod := objects[events.KindPod].(*corev1.Pod)
	pod.Annotations[karpv1.DoNotDisruptAnnotationKey] = "true"
	pod.OwnerReferences[1].Controller = new(bool)
	target := pod.Status.Conditions[1]
	target.Type, target.Status, target.LastTransitionTime = corev1.DisruptionTarget, corev1.ConditionTrue, pod.CreationTimestamp
	target.Reason = "DeletionByTaintManager"
	pod.OwnerReferences[0].APIVersion, pod.OwnerReferences[0].Kind = "apps/v1", "ReplicaSet"
	pod.Status.Conditions = append(pod.Status.Conditions, target)
	scheduled, ready := &pod.Status.Conditions[0], &pod.Status.Conditions[1]
	scheduled.Type, scheduled.Status, scheduled.Reason = corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable
	ready.Type, ready.Status = corev1.PodReady, corev1.ConditionTrue
	for i := range pod.Spec.Volumes {
		pod.Spec.Volumes[i].VolumeSource = corev1.VolumeSource{Ephemeral: pod.Spec.Volumes[i].Ephemeral, PersistentVolumeClaim: pod.Spec.Volumes[i].PersistentVolumeClaim}
	}
	return objects
}

// filler sets fields by reflection.
type filler struct{ n int64 }

func (f *filler) fill(v reflect.Value, depth int) {
	if depth > 24 || f.special(v) {
		return
	}
	f.n++
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem(), depth+1)
	case reflect.Struct:
		for i := range v.NumField() {
			// What has no name in JSON does not travel, and no World has it.
			if field := v.Type().Field(i); field.IsExported() && field.Tag.Get("json") != "-" {
				f.fill(v.Field(i), depth+1)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			f.fill(v.Index(i), depth+1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		f.fill(key, depth+1)
		f.fill(value, depth+1)
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString(fmt.Sprint("text-", f.n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(f.n)
	case reflect.Uint8:
		v.SetUint('x')
	case reflect.Float64, reflect.Uint32, reflect.Uint64, reflect.Interface:
		panic("the filler does not know " + v.Type().String())
	}
}

// special sets fields that cannot hold just any value, or have parts that are not exported.
func (f *filler) special(v reflect.Value) bool {
	at := time.Unix(1e9+f.n, 0).UTC()
	switch p := v.Addr().Interface().(type) {
	case *resource.Quantity:
		*p = *resource.NewQuantity(f.n+1, resource.DecimalSI)
	case *metav1.Time:
		*p = metav1.NewTime(at)
	case *metav1.MicroTime:
		*p = metav1.NewMicroTime(at.Add(time.Microsecond))
	case *time.Time:
		*p = at.Add(time.Nanosecond)
	case *metav1.Duration:
		p.Duration = time.Duration(f.n) * time.Second
	case *karpv1.NillableDuration:
		*p = karpv1.NewDuration(time.Duration(f.n) * time.Second)
	case *intstr.IntOrString:
		*p = intstr.FromString(fmt.Sprint(f.n%100, "%"))
	case *metav1.FieldsV1:
		p.SetRawBytes(fmt.Appendf(nil, "%d", f.n))
	case *runtime.RawExtension:
		p.Raw = fmt.Appendf(nil, `{"n":%d}`, f.n)
	case *metav1.TypeMeta: // not part of an object in a World
	default:
		return false
	}
	f.n++
	return true
}

// TestEveryFieldOfEveryKindSurvivesACheckpoint: with every field of every object set, the restored World
// holds what the World held.
func TestEveryFieldOfEveryKindSurvivesACheckpoint(t *testing.T) {
	w := New()
	w.SetIncarnation("stream")
	counter := uint64(0)
	apply := func(o events.Observation) {
		counter++
		o.Epoch, o.Counter, o.ObservedAt = 3, counter, time.Unix(2e9, int64(counter)).UTC()
		w.Apply(counter, o)
	}
	upsert := func(k events.Kind, name string, object any) {
		o := events.Observation{Op: events.OpUpsert, Kind: k, Name: name, UID: types.UID("uid-of-" + name), ResourceVersion: fmt.Sprint(counter), Object: object}
		apply(o)
	}
	objects := filled()
	node, pod := objects[events.KindNode].(*corev1.Node), objects[events.KindPod].(*corev1.Pod)
	node.Name, pod.Spec.NodeName = "node", "node"
	node.CreationTimestamp, node.Labels = pod.CreationTimestamp, map[string]string{karpv1.NodePoolLabelKey: "pool"} // so that pods flee from it
	for _, round := range []string{"earlier", "later"} {                                                            // what only the earlier one has was not mentioned again
		apply(events.Observation{Op: events.OpResyncBegin})
		for _, k := range slices.Concat(events.KubeKinds(), events.AWSKinds()) {
			switch {
			case k == events.KindNode:
				upsert(k, "node", objects[k])
			case k != events.KindPod:
				upsert(k, round+k.String(), objects[k])
			}
		}
		upsert(events.KindPod, pod.Name, pod)
		apply(events.Observation{Op: events.OpUnreadable, Kind: events.KindNodePool, Name: "broken" + round, UID: "u", ResourceVersion: "9"})
		apply(events.Observation{Op: events.OpHeartbeat, Object: &events.Heartbeat{}})
		if round == "earlier" {
			apply(events.Observation{Op: events.OpResyncEnd})
		}
	}
	another := pod.DeepCopy()
	another.Name, another.UID = "another", "another"
	upsert(events.KindPod, another.Name, another) // an event of its node, and in place of the first
	gone := pod.DeepCopy()
	gone.Name, gone.UID, gone.Labels = "gone", "gone", map[string]string{"of": "another class"}
	upsert(events.KindPod, gone.Name, gone)
	apply(events.Observation{Op: events.OpDelete, Kind: events.KindPod, Name: "default/gone", UID: "uid-of-gone"})
	w.Apply(counter, events.Observation{Epoch: 2}) // dropped
	w.torn, w.resync.intact = true, true
	data, err := w.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	restored, err := Restore(data)
	if err != nil {
		t.Fatal(err)
	}
	before, after := contentsOf(w), contentsOf(restored)
	before.complete(t)
	if diff := cmp.Diff(before, after, cmp.Exporter(func(reflect.Type) bool { return true }), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the restored World differs (-was +is):\n%s", diff)
	}
}

// contents are all that a World holds, without what is derived from it.
type contents struct {
	Stream           position
	Resync           resync
	AsOf             time.Time
	Torn, Synced     bool
	Generation       uint32
	Pods             map[types.UID]podRow
	Pending          []podKey
	Classes          map[uint64]classRow
	Nodes            map[string]nodeRow
	Providers        map[string][]string
	Tables           map[events.Kind]map[string]any
	Catalogs         map[string]catalogContents
	Prices           catalog.Prices
	PriceGenerations map[catalog.PriceKey]uint32
	SpotPast         map[catalog.PriceKey][]spotStep
	Departed         map[types.UID][]departure
}

type catalogContents struct {
	NodeClass, Hash string
	ClassVersion    int64
	Generation      uint32
	ReservationsAt  time.Time
	ZonalShifts     []events.ZonalShift
	Published       *events.Catalog
}

func contentsOf(w *World) contents {
	c := contents{
		Stream: w.stream, Resync: w.resync, AsOf: w.asOf, Torn: w.torn, Synced: w.synced, Generation: w.generation,
		Pods: map[types.UID]podRow{}, Pending: w.pending.Keys(), Classes: map[uint64]classRow{}, Nodes: map[string]nodeRow{},
		Providers: map[string][]string{}, Tables: map[events.Kind]map[string]any{}, Catalogs: map[string]catalogContents{},
		Prices: w.aws.prices.prices, PriceGenerations: w.aws.prices.generations, SpotPast: w.aws.prices.spot, Departed: maps.Collect(w.departed.byOwner.All()),
	}
	for uid, r := range w.pods.byUID.All() {
		c.Pods[uid] = *r
	}
	for digest, r := range w.classes.All() {
		c.Classes[digest] = r
	}
	for name, r := range w.nodes.rows.All() {
		n := *r
		n.owner = nil
		c.Nodes[name] = n
	}
	for provider, names := range w.nodes.byProvider.All() {
		c.Providers[provider] = names
	}
	addRows(&c, events.KindNodeClaim, &w.claims)
	addRows(&c, events.KindNodePool, &w.pools)
	addRows(&c, events.KindEC2NodeClass, &w.nodeClasses)
	addRows(&c, events.KindDaemonSet, &w.daemonSets)
	addRows(&c, events.KindPodDisruptionBudget, &w.budgets)
	addRows(&c, events.KindPersistentVolumeClaim, &w.volumeClaims)
	addRows(&c, events.KindPersistentVolume, &w.volumes)
	addRows(&c, events.KindStorageClass, &w.classesOfSC)
	addRows(&c, events.KindCSINode, &w.csiNodes)
	addRows(&c, events.KindVolumeAttachment, &w.attachments)
	addRows(&c, events.KindNamespace, &w.namespaces)
	addRows(&c, events.KindPriorityClass, &w.priorities)
	addRows(&c, events.KindNodeOverlay, &w.overlays)
	addRows(&c, events.KindDisruptionPolicy, &w.policies)
	addRows(&c, events.KindInstanceState, &w.aws.instances)
	addRows(&c, events.KindInterruption, &w.aws.interruptions)
	addRows(&c, events.KindNone, &w.unreadable)
	for name, r := range w.aws.catalogs {
		c.Catalogs[name] = catalogContents{r.nodeClass, r.hash, r.classVersion, r.generation, r.reservationsAt, r.zonalShifts, w.RawCatalog(name)}
	}
	return c
}

func addRows[T any](c *contents, k events.Kind, t *table[T]) {
	c.Tables[k] = map[string]any{}
	for name, r := range t.rows.All() {
		c.Tables[k][name] = *r
	}
}

// complete fails if the test leaves something out: a kind without rows, or a kept field that nothing set.
func (c *contents) complete(t *testing.T) {
	t.Helper()
	for k, rows := range c.Tables {
		if len(rows) == 0 {
			t.Errorf("nothing of kind %s is held", k)
		}
	}
	if len(c.Pods) != 2 || len(c.Classes) != 1 || len(c.Nodes) != 1 || len(c.Catalogs) != 2 || len(c.Prices) == 0 || len(c.SpotPast) == 0 || len(c.Providers) != 1 {
		t.Errorf("held are %d pods of %d classes, %d nodes, %d catalogues, %d prices", len(c.Pods), len(c.Classes), len(c.Nodes), len(c.Catalogs), len(c.Prices))
	}
	successors := 0
	for _, p := range c.Pods {
		if p.Successor && p.Displaced == 1 {
			successors++
		}
		p.NotReady, p.Successor, p.Displaced = true, true, 1 // or Ready
		set(t, reflect.ValueOf(p.Pod))
		set(t, reflect.ValueOf(*p.Class))
	}
	for _, n := range c.Nodes {
		n.owner = new(version.Owner)
		set(t, reflect.ValueOf(n.Node), "DaemonUsed")
		set(t, reflect.ValueOf(n), "owner")
	}
	if len(c.Departed) != 1 || successors != 1 {
		t.Errorf("pods of %d owners have departed, and %d came in place of others", len(c.Departed), successors)
	}
	set(t, reflect.ValueOf(c.Stream))
	set(t, reflect.ValueOf(c.Resync))
}

// set fails for every field that is zero.
func set(t *testing.T, v reflect.Value, but ...string) {
	t.Helper()
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; v.Field(i).IsZero() && !slices.Contains(but, name) {
			t.Errorf("%s.%s is not set: the test shows nothing of it", v.Type(), name)
		}
	}
}

// TestTheCheckpointHoldsAllOfTheWorld: whoever adds a field adds it to WriteCheckpoint, ReadCheckpoint and
// contents, and then here.
func TestTheCheckpointHoldsAllOfTheWorld(t *testing.T) {
	for _, c := range []struct {
		of   reflect.Type
		held string // everything else is derived from it, or belongs to this process alone
		not  string
	}{
		{reflect.TypeFor[World](), "stream resync asOf torn synced generation pods nodes objects aws classes departed",
			"owner latest drifted unknownIn typeLists revision unbound overlaid records attached memory"},
		{reflect.TypeFor[pods](), "byUID byName pending", ""},
		{reflect.TypeFor[podRow](), "Pod generation", ""},
		{reflect.TypeFor[departed](), "byOwner", "count"},
		{reflect.TypeFor[departure](), "pod at", ""},
		{reflect.TypeFor[classRow](), "class pods", ""},
		{reflect.TypeFor[nodes](), "rows byProvider", ""},
		{reflect.TypeFor[nodeRow](), "Node known uid version generation pods lastEvent firstSeen", "owner"},
		{reflect.TypeFor[objects](), "claims pools nodeClasses daemonSets budgets volumeClaims volumes classesOfSC csiNodes attachments namespaces priorities overlays policies unreadable buffers podTemplates deployments statefulSets replicaSets", ""},
		{reflect.TypeFor[row[int]](), "value uid version generation", ""},
		{reflect.TypeFor[aws](), "catalogs prices instances interruptions", "interrupted"},
		{reflect.TypeFor[catalogRow](), "nodeClass classVersion reservationsAt zonalShifts hash generation offer", "built discovered"},
		{reflect.TypeFor[priceTable](), "prices generations spot", "owner"},
	} {
		var fields []string
		for i := range c.of.NumField() {
			fields = append(fields, c.of.Field(i).Name)
		}
		want := slices.Concat(strings.Fields(c.held), strings.Fields(c.not))
		slices.Sort(fields)
		slices.Sort(want)
		if !slices.Equal(fields, want) {
			t.Errorf("%s has the fields %v, its checkpoint is known to hold or leave out %v", c.of, fields, want)
		}
	}
}
