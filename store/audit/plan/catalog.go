package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/api/reading"
	"millwright/events"
	"millwright/planner/requirement"
)

// catalogFile is a catalogue with its prices, as planners take them.
type catalogFile struct {
	types  []events.CatalogInstanceType
	prices *events.Prices
	// exact prices, in USD per hour as they were written.
	exact map[offeringKey]price
}

// offeringKey names an offering of the catalogue.
type offeringKey struct{ instanceType, zone, capacityType, reservationID string }

func (c *catalogFile) forNodeClass(name string) *events.Catalog {
	return &events.Catalog{NodeClass: name, Generation: 1, InstanceTypes: c.types}
}

// The catalogue as it is written.
type (
	catalogJSON struct {
		InstanceTypes []instanceTypeJSON `json:"instanceTypes"`
	}
	instanceTypeJSON struct {
		Name         string                           `json:"name"`
		Requirements []corev1.NodeSelectorRequirement `json:"requirements"`
		Capacity     corev1.ResourceList              `json:"capacity"`
		Overhead     corev1.ResourceList              `json:"overhead"`
		Offerings    []offeringJSON                   `json:"offerings"`
	}
	offeringJSON struct {
		Zone                string `json:"zone"`
		ZoneID              string `json:"zoneID"`
		CapacityType        string `json:"capacityType"`
		Price               price  `json:"price"`
		Available           *bool  `json:"available"`
		ReservationID       string `json:"reservationID"`
		ReservationCapacity *int64 `json:"reservationCapacity"`
	}
)

// price in pico USD per hour, written as a decimal string or number of USD.
type price struct {
	pico int64
	text string
}

const picoPerMicro = 1_000_000

// micro is the price in micro USD per hour: half a millionth rounds up, and what costs something is not free.
func (p price) micro() int64 { return max(1, (p.pico+picoPerMicro/2)/picoPerMicro) }

var errPrice = errors.New("is not a price: a decimal number of USD per hour, such as \"0.096\"")

func (p *price) UnmarshalJSON(b []byte) error {
	text := strings.Trim(string(b), `"`)
	if strings.ContainsAny(text, "/_xXpP") || reading.CheckQuantity(text) != nil {
		return errPrice
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok || r.Sign() < 0 {
		return errPrice
	}
	exact := new(big.Rat).Mul(r, big.NewRat(1_000_000*picoPerMicro, 1))
	n := new(big.Int).Quo(exact.Num(), exact.Denom())
	if !n.IsInt64() {
		return errPrice
	}
	digits, _ := r.FloatPrec()
	p.pico, p.text = max(1, n.Int64()), r.FloatString(max(digits, 0))
	return nil
}

// readCatalog reads a catalogue, which may be YAML too.
func readCatalog(from Source) (*catalogFile, error) {
	if !from.given() {
		return nil, errors.New("plan: --catalog is required")
	}
	raw, err := from.all()
	if err != nil {
		return nil, err
	}
	fail := func(field string, err error) error {
		return &InputError{File: from.Name, Document: 1, Object: "catalogue", Field: field, Err: err}
	}
	if !json.Valid(raw) {
		converted, err := toJSON(raw)
		if err != nil {
			return nil, fail("", err)
		}
		raw = converted
	}
	var c catalogJSON
	if r := decodeWhole(raw, &c, func() any { return &catalogJSON{} }); r != nil {
		return nil, fail(r.path, plain(r.err))
	}
	if c.InstanceTypes == nil {
		return nil, fail("instanceTypes", errors.New("is missing"))
	}
	return c.convert(fail)
}

func (c *catalogJSON) convert(fail func(string, error) error) (*catalogFile, error) {
	f := &catalogFile{prices: &events.Prices{}, exact: map[offeringKey]price{}}
	names := map[string]bool{}
	for i := range c.InstanceTypes {
		t := &c.InstanceTypes[i]
		path := fmt.Sprintf("instanceTypes[%d]", i)
		if t.Name == "" {
			return nil, fail(path+".name", errors.New("is missing"))
		}
		if names[t.Name] {
			return nil, fail(path+".name", fmt.Errorf("%s is there twice", t.Name))
		}
		names[t.Name] = true
		out, field, err := t.convert(f)
		if err != nil {
			return nil, fail(path+"."+field, err)
		}
		f.types = append(f.types, out)
	}
	return f, nil
}

func (t *instanceTypeJSON) convert(f *catalogFile) (events.CatalogInstanceType, string, error) {
	out := events.CatalogInstanceType{
		Name: t.Name, Requirements: map[string][]string{}, Capacity: amounts(t.Capacity), Overhead: amounts(t.Overhead),
	}
	for i, r := range t.Requirements {
		if err := addRequirement(&out, r); err != nil {
			return out, fmt.Sprintf("requirements[%d]", i), err
		}
	}
	for i := range t.Offerings {
		o := &t.Offerings[i]
		if o.CapacityType == "" {
			return out, fmt.Sprintf("offerings[%d].capacityType", i), errors.New("is missing")
		}
		if o.ReservationCapacity != nil && *o.ReservationCapacity < 0 {
			return out, fmt.Sprintf("offerings[%d].reservationCapacity", i), errors.New("is less than 0")
		}
		out.Offerings = append(out.Offerings, o.convert())
		if o.Price.pico > 0 {
			f.exact[offeringKey{t.Name, o.Zone, o.CapacityType, o.ReservationID}] = o.Price
		}
		if o.CapacityType == karpv1.CapacityTypeReserved {
			allowReserved(&out)
		} else if o.Price.pico > 0 {
			f.prices.Entries = append(f.prices.Entries, events.Price{
				InstanceType: t.Name, CapacityType: o.CapacityType, Zone: o.Zone, MicroUSDPerHour: o.Price.micro(),
			})
		}
	}
	return out, "", nil
}

// addRequirement puts what can be listed into the type's labels and the rest beside them.
func addRequirement(t *events.CatalogInstanceType, r corev1.NodeSelectorRequirement) error {
	err := requirement.Validate(karpv1.NodeSelectorRequirementWithMinValues{Key: r.Key, Operator: r.Operator, Values: r.Values})
	key := requirement.Normalize(r.Key)
	switch {
	case err != nil && !requirement.Restricted(key):
		return err
	case r.Operator == corev1.NodeSelectorOpIn && t.Requirements[key] == nil:
		t.Requirements[key] = slices.Compact(slices.Sorted(slices.Values(r.Values)))
	case r.Operator == corev1.NodeSelectorOpDoesNotExist && t.Requirements[key] == nil:
		t.Requirements[key] = []string{}
	default:
		t.Others = append(t.Others, events.CatalogRequirement{Key: key, Operator: string(r.Operator), Values: r.Values})
	}
	return nil
}

// allowReserved adds the capacity type to those a type lists, for it has an offering of it.
func allowReserved(t *events.CatalogInstanceType) {
	if listed := t.Requirements[karpv1.CapacityTypeLabelKey]; len(listed) > 0 && !slices.Contains(listed, karpv1.CapacityTypeReserved) {
		t.Requirements[karpv1.CapacityTypeLabelKey] = slices.Sorted(slices.Values(append(slices.Clone(listed), karpv1.CapacityTypeReserved)))
	}
}

func (o *offeringJSON) convert() events.CatalogOffering {
	out := events.CatalogOffering{
		Zone: o.Zone, ZoneID: o.ZoneID, CapacityType: o.CapacityType, Available: o.Available == nil || *o.Available,
	}
	if o.CapacityType == karpv1.CapacityTypeReserved {
		out.Reservation = &events.CatalogReservation{ID: o.ReservationID, Type: "default", Free: o.ReservationCapacity, PicoUSDPerHour: o.Price.pico}
	}
	return out
}

// amounts converts quantities: cpu in millicores, all else in units or bytes.
func amounts(list corev1.ResourceList) map[string]int64 {
	out := make(map[string]int64, len(list))
	for name, q := range list {
		out[string(name)] = amount(name, q)
	}
	return out
}

func amount(name corev1.ResourceName, q resource.Quantity) int64 {
	if name == corev1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}
