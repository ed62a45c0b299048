package packing

import (
	"math"

	"millwright/planner/resource"
)

// ranking of some sites by what would be left of their room with a parcel in. Most parcels are as large as
// the one before them, and then only the site that took that one is looked at again. Nothing else may put
// anything on the sites between two parcels.
type ranking struct {
	sites []*Site
	by    fit
	// need is what the places were worked out for; nil: nothing yet.
	need *resource.Vector
	// places are the sites that stay and had room for need, in their order.
	places []place
}

// place is a site, by its index, and what would be left there; with firstFit that is 0.
type place struct {
	index int
	left  int64
}

// noRoom is what is left on a site that has no room any more.
const noRoom = math.MaxInt64

// rank begins with sites on which nothing is put yet, by one fit.
func (k *Model) rank(sites []*Site, by fit) *ranking {
	for _, x := range sites {
		x.clear()
	}
	k.ranking = ranking{sites: sites, by: by, places: k.ranking.places[:0]}
	return &k.ranking
}

// put puts a parcel on the site of the ranking that it leaves with the least room, the first of several, and
// returns that; nil if none has room. It takes as many steps as a look at each site.
func (k *Model) put(r *ranking, a *Parcel) *Site {
	if need := &a.pod.Class.Requests; r.need == nil || r.need != need && !r.need.Equal(*need) {
		r.lookFor(need)
	}
	best := r.best(a)
	if best == nil {
		k.steps -= len(r.sites)
		return nil
	}
	if r.by == firstFit {
		k.steps -= best.index + 1
	} else {
		k.steps -= len(r.sites)
	}
	x := r.sites[best.index]
	x.takeRoom(r.need)
	best.left = r.leftOn(x)
	return x
}

// best is the place for a parcel; nil if there is none.
func (r *ranking) best(a *Parcel) (best *place) {
	least := int64(noRoom)
	for i := range r.places {
		p := &r.places[i]
		if p.left >= least || !takes(r.sites[p.index], a) {
			continue
		}
		if best, least = p, p.left; r.by == firstFit {
			break
		}
	}
	return best
}

func (r *ranking) lookFor(need *resource.Vector) {
	r.need, r.places = need, r.places[:0]
	for i, x := range r.sites {
		if x.gone {
			continue
		}
		if left := r.leftOn(x); left != noRoom {
			r.places = append(r.places, place{i, left})
		}
	}
}

func (r *ranking) leftOn(x *Site) int64 {
	switch {
	case !x.hasRoomFor(r.need):
		return noRoom
	case r.by == firstFit:
		return 0
	}
	return x.left(r.need, r.by)
}
