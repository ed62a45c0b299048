package provision

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/provision/internal/pack"
	"millwright/planner/provision/internal/place"
	"millwright/planner/provision/internal/solve"
	"millwright/planner/resource"
	"millwright/planner/world"
	"millwright/tools/workload"
)

// problem folds a problem into a cluster.
func problem(p *workload.Problem) *cluster {
	c := newCluster()
	c.options.InstanceTypesMax = 600
	c.putCatalog(p.Catalogue.Types, p.Catalogue.Prices)
	c.put(p.Objects...)
	return c
}

// greedy places the pods as the reference does (scheduling §7): largest first, each on the new claim with the
// fewest pods that takes it, else on a new one; claims grow until no instance type holds them.
func greedy(in *solve.Input) *solve.Solver {
	s := solve.New(in)
	waiting, _ := s.KeepVerdicts()
	for len(waiting) > 0 {
		var refused []*solve.Item
		for _, it := range waiting {
			if !greedyAttempt(s, it) {
				refused = append(refused, it)
			}
		}
		if len(refused) == len(waiting) {
			break
		}
		waiting = refused
	}
	return s
}

func greedyAttempt(s *solve.Solver, it *solve.Item) bool {
	m := &solve.Mode{}
	bins := slices.Clone(s.Bins)
	slices.SortStableFunc(bins, func(a, b *place.Bin) int {
		if a.Open() == nil || b.Open() == nil {
			return a.Index - b.Index
		}
		return len(a.Added) - len(b.Added)
	})
	for _, lv := range it.Class.Tries {
		for _, b := range bins {
			if s.Accept(b, lv, m) == place.Accepted {
				s.Put(b, it, m)
				return true
			}
		}
		if b, _ := s.OpenClaim(lv, m); b != nil {
			s.Put(b, it, m)
			return true
		}
	}
	return false
}

// total is the price of the new claims, and how many pods have no place.
func total(s *solve.Solver) (price int64, claims, refused int) {
	for _, b := range s.Bins {
		if b.Open() != nil && !b.Gone {
			price += b.Open().Cheapest()
			claims++
		}
	}
	for _, it := range s.Items {
		if it.Bin == nil {
			refused++
		}
	}
	return price, claims, refused
}

// TestPlansAreCheaperThanGreedyOnes on generated batches; MILLWRIGHT_BATCHES=n looks at more.
func TestPlansAreCheaperThanGreedyOnes(t *testing.T) {
	batches := 25
	if n, err := strconv.Atoi(os.Getenv("MILLWRIGHT_BATCHES")); err == nil {
		batches = n
	}
	var ratio, bound float64
	for seed := range batches {
		c := problem(workload.Batch(uint64(seed)))
		reference, claims, refused := total(greedy(inputOf(c.snapshot(), Scenario{})))
		_, r := Plan(c.snapshot())
		reference += int64(claims) * c.options.NodeCost
		cost := r.PricePerHour + int64(len(r.Claims))*c.options.NodeCost
		if r.Refused != refused {
			t.Errorf("batch %d: %d pods refused, the greedy plan refuses %d", seed, r.Refused, refused)
		}
		if cost*100 > reference*101 {
			t.Errorf("batch %d: %d µ$/h, the greedy plan costs %d", seed, cost, reference)
		}
		if r.LowerBound <= 0 || r.LowerBound > r.PricePerHour {
			t.Errorf("batch %d: lower bound %d of a plan that costs %d", seed, r.LowerBound, r.PricePerHour)
		}
		ratio += float64(cost) / float64(reference)
		bound += float64(r.LowerBound) / float64(r.PricePerHour)
	}
	if ratio >= float64(batches) {
		t.Errorf("plans are not cheaper on average than greedy ones: %.3f", ratio/float64(batches))
	}
	t.Logf("%d batches: price of plan/greedy %.3f on average, lower bound/plan %.3f", batches, ratio/float64(batches), bound/float64(batches))
}

// optimum is the least that nodes for the pods cost, of any types and with what each node costs by itself:
// found by trying all ways to divide the pods.
func optimum(types []catalogType, pods []resource.Vector, node int64) int64 {
	price := func(set int) int64 {
		var sum resource.Vector
		for i := range pods {
			if set&(1<<i) != 0 {
				sum = sum.Add(pods[i])
			}
		}
		best := int64(-1)
		for _, t := range types {
			if sum.Fits(t.allocatable) && (best < 0 || t.price+node < best) {
				best = t.price + node
			}
		}
		return best
	}
	least := make([]int64, 1<<len(pods))
	for set := 1; set < len(least); set++ {
		least[set] = -1
		for part := set; part > 0; part = (part - 1) & set {
			p := price(part)
			if rest := least[set&^part]; p >= 0 && rest >= 0 && (least[set] < 0 || p+rest < least[set]) {
				least[set] = p + rest
			}
		}
	}
	return least[len(least)-1]
}

type catalogType struct {
	allocatable resource.Vector
	price       int64
}

// TestTinyPlansAreNearTheOptimum: plans of up to eight pods cost what the best of all ways to divide them
// does, those of nine or ten at most a quarter more, and on average at most a thirtieth.
func TestTinyPlansAreNearTheOptimum(t *testing.T) {
	var plans, ratio float64
	rapid.Check(t, func(rt *rapid.T) {
		c := newCluster()
		c.catalogue()
		pool := newPool("default")
		pool.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{{Key: karpv1.CapacityTypeLabelKey, Operator: "In", Values: []string{"on-demand"}}}
		c.put(pool)
		var pods []resource.Vector
		for i := range rapid.IntRange(1, 10).Draw(rt, "pods") {
			p := newPod(fmt.Sprint("p", i), map[string]string{
				"cpu":    rapid.SampledFrom([]string{"200m", "900m", "1500m", "2500m", "3500m", "6"}).Draw(rt, "cpu"),
				"memory": rapid.SampledFrom([]string{"500Mi", "2Gi", "5Gi", "11Gi"}).Draw(rt, "memory")})
			c.put(p)
			pods = append(pods, world.PodRequests(&p.Spec, nil))
		}
		var types []catalogType
		for _, it := range c.world.Catalog("default").Types {
			for _, o := range it.Offerings {
				if o.CapacityType == "on-demand" {
					types = append(types, catalogType{it.Allocatable, o.Price})
				}
			}
		}
		c.options.NodeCost = rapid.SampledFrom([]int64{0, 10_000, 50_000}).Draw(rt, "node cost")
		best := optimum(types, pods, c.options.NodeCost)
		_, r := Plan(c.snapshot())
		cost := r.PricePerHour + int64(len(r.Claims))*c.options.NodeCost
		if cost < best || cost > best && len(pods) <= pack.ExactMax || cost*4 > best*5 {
			rt.Errorf("the plan costs %d µ$/h, the optimum %d", cost, best)
		}
		if least := optimum(types, pods, 0); r.LowerBound > least {
			rt.Errorf("lower bound %d above the optimum by price alone, %d", r.LowerBound, least)
		}
		if len(pods) > pack.ExactMax {
			plans, ratio = plans+1, ratio+float64(cost)/float64(best)
		}
	})
	t.Logf("%.0f plans of more than %d pods: %.4f of the optimum on average", plans, pack.ExactMax, ratio/plans)
	if ratio > plans*31/30 {
		t.Error("plans are too far from the optimum")
	}
}
