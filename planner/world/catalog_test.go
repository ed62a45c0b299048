package world

import (
	"bytes"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/events"
	"millwright/planner/catalog"
)

// TestCatalogueSaysWhenReservationsWereCounted: the same catalogue, published again, only moves the time; a
// checkpoint keeps it.
func TestCatalogueSaysWhenReservationsWereCounted(t *testing.T) {
	raw := &events.Catalog{NodeClass: "default", InstanceTypes: []events.CatalogInstanceType{{Name: "m5.large"}}}
	at := time.Date(2026, 4, 1, 12, 0, 0, 0, time.UTC)
	w := New()
	publish := func(counter uint64, at time.Time) {
		w.Apply(counter, events.Observation{Epoch: 1, Counter: counter, Kind: events.KindCatalog, Op: events.OpUpsert, UID: "default", Name: "default",
			Object: &events.CatalogRef{NodeClass: "default", Hash: "h", ReservationsAt: at, Catalog: raw}})
	}
	publish(1, at)
	first := w.Catalog("default")
	publish(2, at.Add(time.Minute))
	second := w.Catalog("default")
	if !first.ReservationsAt.Equal(at) || !second.ReservationsAt.Equal(at.Add(time.Minute)) {
		t.Errorf("counted at %s, then %s", first.ReservationsAt, second.ReservationsAt)
	}
	if first.Types[0] != second.Types[0] {
		t.Error("an equal catalogue was built again")
	}
	data, err := w.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	restored, err := Restore(data)
	if err != nil || !restored.Catalog("default").ReservationsAt.Equal(at.Add(time.Minute)) {
		t.Errorf("restored: %v, counted at %s", err, restored.Catalog("default").ReservationsAt)
	}
}

// TestZonalShiftsComeWithTheCatalogue and stay as long as it says so; a checkpoint keeps them.
func TestZonalShiftsComeWithTheCatalogue(t *testing.T) {
	w := New()
	publish := func(counter uint64, class string, shifts ...events.ZonalShift) {
		w.Apply(counter, events.Observation{Epoch: 1, Counter: counter, Kind: events.KindCatalog, Op: events.OpUpsert, UID: types.UID(class), Name: class,
			Object: &events.CatalogRef{NodeClass: class, Hash: "h", ZonalShifts: shifts, Catalog: &events.Catalog{NodeClass: class, InstanceTypes: []events.CatalogInstanceType{{Name: "m5.large"}}}}})
	}
	a := events.ZonalShift{ZoneID: "usw2-az1", Zone: "us-west-2b", Until: time.Date(2026, 4, 1, 12, 0, 0, 0, time.UTC)}
	b := events.ZonalShift{ZoneID: "usw2-az2", Zone: "us-west-2a"}
	publish(1, "first", a, b)
	publish(2, "second", a)
	w.Apply(3, events.Observation{Epoch: 1, Counter: 3, Kind: events.KindPrices, Op: events.OpUpsert,
		Object: &events.Prices{Entries: []events.Price{{InstanceType: "m5.large", CapacityType: "on-demand", MicroUSDPerHour: 1}}}})
	data, err := w.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	restored, err := Restore(data)
	if err != nil {
		t.Fatal(err)
	}
	for what, w := range map[string]*World{"folded": w, "restored": restored} {
		if got := w.ZonalShifts("first"); !slices.Equal(got, []events.ZonalShift{a, b}) {
			t.Errorf("%s: %v", what, got)
		}
		if got := w.AllZonalShifts(); !slices.Equal(got, []events.ZonalShift{a, b}) {
			t.Errorf("%s: all are %v", what, got)
		}
	}
	publish(4, "first")
	if got := w.AllZonalShifts(); len(w.ZonalShifts("first")) > 0 || !slices.Equal(got, []events.ZonalShift{a}) {
		t.Errorf("cleared for one: %v", got)
	}
}

// region is a catalogue as large as that of a region: 1,300 types of 25 labels in three zones. Disk is that
// of the NodeClass.
func region(nodeClass string, generation, disk int64, types ...int) *events.Catalog {
	c := &events.Catalog{NodeClass: nodeClass, Generation: generation}
	for i := range append(types, 1300)[0] {
		it := events.CatalogInstanceType{
			Name: fmt.Sprintf("m%d.%dxlarge", i/16, i%16),
			Capacity: map[string]int64{"cpu": int64(i%16+1) * 4000, "memory": int64(i%16+1)<<34 - int64(i)<<20, "pods": 234,
				"ephemeral-storage": disk, "vpc.amazonaws.com/pod-eni": int64(i)},
			Overhead: map[string]int64{"cpu": 100, "memory": 1 << 30, "ephemeral-storage": disk / 10},
		}
		it.Requirements = map[string][]string{"topology.kubernetes.io/region": {"us-west-2"}, "kubernetes.io/os": {"linux"}}
		for k := range 23 {
			it.Requirements[fmt.Sprintf("karpenter.k8s.aws/label-%02d", k)] = []string{fmt.Sprint(i % (k*3 + 1))}
		}
		for _, zone := range []string{"us-west-2a", "us-west-2b", "us-west-2c"} {
			for _, capacityType := range []string{"on-demand", "spot"} {
				it.Offerings = append(it.Offerings, events.CatalogOffering{Zone: zone, ZoneID: "id-" + zone, CapacityType: capacityType, Available: i%7 != 0})
			}
		}
		c.InstanceTypes = append(c.InstanceTypes, it)
	}
	return c
}

// feed folds messages of one epoch.
type feed struct {
	*World
	counter uint64
}

func (f *feed) send(kind events.Kind, op events.Op, name string, object any) {
	f.counter++
	f.Apply(f.counter, events.Observation{Epoch: 1, Counter: f.counter, Kind: kind, Op: op, UID: types.UID(name), Name: name, Object: object})
}

func (f *feed) catalogue(c *events.Catalog) {
	f.send(events.KindCatalog, events.OpUpsert, c.NodeClass, &events.CatalogRef{NodeClass: c.NodeClass, Hash: fmt.Sprint(c.NodeClass, c.Generation), Catalog: c})
}

func (f *feed) prices(micro int64) {
	p := &events.Prices{}
	for i := range 1300 {
		for _, capacityType := range []string{"on-demand", "spot"} {
			p.Entries = append(p.Entries, events.Price{InstanceType: fmt.Sprintf("m%d.%dxlarge", i/16, i%16), CapacityType: capacityType, MicroUSDPerHour: micro + int64(i)})
		}
	}
	f.send(events.KindPrices, events.OpUpsert, "", p)
}

// heap is how many bytes are in use after a collection.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestAFurtherNodeClassCostsWhatIsDifferentAboutIt, even once everything that planners ask for has been
// built.
func TestAFurtherNodeClassCostsWhatIsDifferentAboutIt(t *testing.T) {
	// further changes the catalogue of the i-th further NodeClass.
	for name, further := range map[string]func(c *events.Catalog, i int64){
		"the same types": func(*events.Catalog, int64) {},
		"another volume, so that each type differs": func(c *events.Catalog, i int64) { *c = *region(c.NodeClass, 1, (i+30)<<30) },
		"other zones": func(c *events.Catalog, i int64) { renameZones(c, i) },
		"two of the zones": func(c *events.Catalog, i int64) {
			for at := range c.InstanceTypes {
				it := &c.InstanceTypes[at]
				it.Offerings = slices.Concat(it.Offerings[:2*(i%3)], it.Offerings[2*(i%3)+2:])
			}
		},
		"another family: other overhead, no GPUs": func(c *events.Catalog, i int64) {
			for at := range c.InstanceTypes {
				it := &c.InstanceTypes[at]
				it.Overhead = map[string]int64{"cpu": 200 + i, "memory": (2+i)<<28 + int64(at)<<18, "ephemeral-storage": 3 << 30}
				it.Capacity["memory"] -= i << 20
				delete(it.Capacity, "vpc.amazonaws.com/pod-eni")
			}
		},
		"other maxPods": func(c *events.Catalog, i int64) {
			for at := range c.InstanceTypes {
				it := &c.InstanceTypes[at]
				it.Capacity["pods"] = 20 + i + int64(at%16)
				it.Overhead["memory"] = 255<<20 + 11<<20*it.Capacity["pods"]
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := &feed{World: New()}
			f.prices(1000)
			f.catalogue(region("first", 1, 20<<30))
			f.Catalog("first")
			const more = 4
			before := heap()
			for i := range int64(more) {
				c := region(fmt.Sprint("class-", i), 1, 20<<30)
				further(c, i)
				f.catalogue(c)
				if f.Catalog(c.NodeClass) == nil {
					t.Fatal("no catalogue")
				}
			}
			if each := (heap() - before) / more; each > 512<<10 {
				t.Errorf("a further NodeClass costs %d KiB", each>>10)
			} else {
				t.Logf("a further NodeClass costs %d KiB", each>>10)
			}
			runtime.KeepAlive(f)
		})
	}
}

// renameZones puts a catalogue into zones of its own.
func renameZones(c *events.Catalog, i int64) {
	for at := range c.InstanceTypes {
		for o := range c.InstanceTypes[at].Offerings {
			x := &c.InstanceTypes[at].Offerings[o]
			x.Zone, x.ZoneID = fmt.Sprint(x.Zone, i), fmt.Sprint(x.ZoneID, i)
		}
	}
}

func TestNodeClassesThatComeAndGoLeaveNothing(t *testing.T) {
	f := &feed{World: New()}
	f.prices(1000)
	f.catalogue(region("stays", 1, 20<<30))
	come := func(i int64) {
		class := fmt.Sprint("class-", i)
		f.send(events.KindEC2NodeClass, events.OpUpsert, class, &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: class}})
		f.send(events.KindNodePool, events.OpUpsert, class, &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: class}})
		f.catalogue(region(class, 1, i<<30, 500))
		f.Catalog(class)
		f.send(events.KindCatalog, events.OpDelete, class, nil)
		f.send(events.KindNodePool, events.OpDelete, class, nil)
		f.send(events.KindEC2NodeClass, events.OpDelete, class, nil)
	}
	come(1)
	before := heap()
	for i := range int64(20) {
		come(i + 2)
	}
	grown := heap() - before
	for collections := 0; grown > 1<<20 && collections < 10; collections++ {
		grown = heap() - before // what one collection has only just found is freed by the next
	}
	if grown > 1<<20 {
		t.Errorf("the heap has grown by %d KiB", grown>>10)
	}
	runtime.KeepAlive(f)
}

// TestSharedCataloguesAreThoseBuiltAlone: sharing changes no answer, in any order of classes and after a
// restart.
func TestSharedCataloguesAreThoseBuiltAlone(t *testing.T) {
	f := &feed{World: New()}
	f.prices(1000)
	all := []*events.Catalog{region("a", 1, 20<<30, 90), region("b", 4, 30<<30, 90), region("c", 1, 20<<30, 90), region("d", 1, 20<<30, 90)}
	all[2].InstanceTypes = all[2].InstanceTypes[:50]
	for i := range all[3].InstanceTypes {
		it := &all[3].InstanceTypes[i]
		it.Offerings = it.Offerings[2:]
	}
	for _, c := range all {
		f.catalogue(c)
		f.Catalog(c.NodeClass)
	}
	f.prices(2000)
	check := func(when string, w *World) {
		for _, c := range all {
			got, want := w.Catalog(c.NodeClass), catalog.New(c, w.aws.prices.prices)
			if said, alone := say(got), say(want); said != alone {
				t.Errorf("%s: the catalogue of %s is not the one built alone", when, c.NodeClass)
			}
		}
	}
	check("folded", f.World)
	data, err := f.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	restored, err := Restore(data)
	if err != nil {
		t.Fatal(err)
	}
	check("restored", restored)
	if again, err := restored.Checkpoint(); err != nil || !bytes.Equal(again, data) {
		t.Errorf("a restored World has another checkpoint: %v", err)
	}
}

// say writes out everything that a catalogue shows.
func say(c *catalog.Catalog) string {
	b, err := json.Marshal(struct {
		Class string
		At    int64
		Types []catalog.InstanceType
	}{c.NodeClass, c.Generation, slices.Collect(func(yield func(catalog.InstanceType) bool) {
		for _, t := range c.Types {
			if !yield(*t) {
				return
			}
		}
	})})
	if err != nil {
		panic(err)
	}
	text := string(b)
	for _, t := range c.Types {
		text += t.Requirements.Key()
		for _, o := range t.Offerings {
			text += o.Requirements.Key() + fmt.Sprint(o.Shape)
		}
	}
	for _, s := range c.Shapes {
		text += fmt.Sprint(s.Zone, s.CapacityType, s.Offered) + s.Requirements.Key()
	}
	for _, key := range []string{"karpenter.k8s.aws/label-07", "topology.kubernetes.io/zone"} {
		for _, v := range c.Values(key) {
			text += fmt.Sprint(key, v, c.Having(key, v))
		}
	}
	return text + fmt.Sprint(c.Largest(c.All(), nil, nil))
}

// TestAReferenceToWhatIsHeldKeepsIt: a reference to the catalogue that is held keeps it, even without its
// blob; a reference to another one whose blob is gone does not.
func TestAReferenceToWhatIsHeldKeepsIt(t *testing.T) {
	f := &feed{World: New()}
	c := &events.Catalog{NodeClass: "default", Generation: 7, InstanceTypes: []events.CatalogInstanceType{{Name: "m5.large"}}}
	f.catalogue(c)
	held := &events.CatalogRef{NodeClass: "default", Hash: "default7"}
	if !f.HoldsCatalog(held) || f.HoldsCatalog(&events.CatalogRef{NodeClass: "default", Hash: "x"}) || f.HoldsCatalog(&events.CatalogRef{NodeClass: "other", Hash: "default7"}) {
		t.Error("what is held is not what was folded")
	}
	f.send(events.KindCatalog, events.OpUpsert, "default", held)
	if got := f.Catalog("default"); got == nil || got.Generation != 7 || got.Type("m5.large") == nil {
		t.Errorf("got %+v", got)
	}
	f.send(events.KindCatalog, events.OpUpsert, "default", &events.CatalogRef{NodeClass: "default", Hash: "gone"})
	if f.HasCatalog("default") || f.Catalog("default") != nil {
		t.Error("a catalogue whose blob is gone is taken for the one before")
	}
}
