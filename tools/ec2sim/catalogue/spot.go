package catalogue

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"time"
)

// Spot is a model of spot prices: a pure function of the seed, the pool (type and zone) and the hour. Each
// pool has a base discount drawn once; three waves of a day, a quarter of a day and an hour make it walk by
// one or two per cent an hour; one block of six hours in two hundred is a spike to on-demand or above.
type Spot struct {
	Region *Region
	Seed   int64
}

// SpotStep is how often prices change: records begin at multiples of it.
const SpotStep = time.Hour

// Price is the spot price per hour in micro USD of a pool at a time; 0 means it is not known.
func (s Spot) Price(t *Type, zone string, at time.Time) int64 {
	onDemand := s.Region.OnDemand(t)
	hour := at.Unix() / int64(SpotStep/time.Second)
	if s.draw(t.Name, zone, "spike", hour/6) < 0.005 {
		return scale(onDemand, 0.9+0.2*s.draw(t.Name, zone, "height", hour/6))
	}
	low, high := discounts(t)
	share := 1 - (low + (high-low)*s.draw(t.Name, zone, "base", 0))
	share += 0.04*s.wave(t.Name, zone, hour, 24) + 0.02*s.wave(t.Name, zone, hour, 6) + 0.01*s.wave(t.Name, zone, hour, 1)
	return max(scale(onDemand, share), min(onDemand, 100))
}

// Depth of a pool in [0,1): how much spare capacity it seems to have. The price-capacity-optimized strategy
// weighs prices with it.
func (s Spot) Depth(t *Type, zone string) float64 { return s.draw(t.Name, zone, "depth", 0) }

// discounts is the range of the base discount.
func discounts(t *Type) (low, high float64) {
	switch {
	case len(t.GPUs) > 0 || len(t.Neurons) > 0:
		return 0.30, 0.60
	case t.Burstable:
		return 0.60, 0.70
	}
	return 0.55, 0.75
}

// wave is noise in [-1,1] that is drawn every period hours and runs straight between.
func (s Spot) wave(name, zone string, hour, period int64) float64 {
	k := hour / period
	from := s.draw(name, zone, "wave", k*1000+period)
	to := s.draw(name, zone, "wave", (k+1)*1000+period)
	return 2*(from+(to-from)*float64(hour%period)/float64(period)) - 1
}

// draw is a number in [0,1) that depends on its arguments and the seed alone.
func (s Spot) draw(name, zone, what string, n int64) float64 {
	h := fnv.New64a()
	var buf [16]byte
	binary.BigEndian.PutUint64(buf[:8], uint64(s.Seed))
	binary.BigEndian.PutUint64(buf[8:], uint64(n))
	h.Write([]byte(name + "/" + zone + "/" + what))
	h.Write(buf[:])
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return float64(x>>11) / (1 << 53)
}

func scale(price int64, share float64) int64 { return int64(math.Round(float64(price) * share)) }
