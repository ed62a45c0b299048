package preview

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	watcherec2 "millwright/services/watcher/ec2"
)

// Catalog is what EC2 offers to an EC2NodeClass, as it is written.
type Catalog struct {
	InstanceTypes []InstanceType `json:"instanceTypes"`
}

// InstanceType with its requirements by key and its offerings by zone, then capacity type.
type InstanceType struct {
	Name         string              `json:"name"`
	Requirements []Requirement       `json:"requirements"`
	Capacity     corev1.ResourceList `json:"capacity"`
	Overhead     Overhead            `json:"overhead"`
	Allocatable  corev1.ResourceList `json:"allocatable"`
	Offerings    []Offering          `json:"offerings"`
	// Unusable says why the class can launch nothing of it; "" if it can.
	Unusable string `json:"unusable,omitempty"`
}

// Requirement on a label: In with values, or DoesNotExist.
type Requirement struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"`
	Values   []string `json:"values,omitempty"`
}

// Overhead is the part of the capacity that pods cannot use.
type Overhead struct {
	KubeReserved      corev1.ResourceList `json:"kubeReserved"`
	SystemReserved    corev1.ResourceList `json:"systemReserved"`
	EvictionThreshold corev1.ResourceList `json:"evictionThreshold"`
}

// Offering in a zone. Price is in USD per hour; nil if it is not known.
type Offering struct {
	Zone         string   `json:"zone"`
	CapacityType string   `json:"capacityType"`
	Price        *float64 `json:"price,omitempty"`
	Available    bool     `json:"available"`
	// PlacementGroup by id, and the number of one of its partitions, that instances are launched into.
	PlacementGroup string `json:"placementGroup,omitempty"`
	Partition      int32  `json:"partition,omitempty"`
	// ReservationID of reserved capacity, and how many instances of it are free; nil: without limit.
	ReservationID       string `json:"reservationID,omitempty"`
	ReservationCapacity *int64 `json:"reservationCapacity,omitempty"`
}

// NewCatalog returns the printable form of an offer.
func NewCatalog(offer *watcherec2.Offer) Catalog {
	c := Catalog{InstanceTypes: []InstanceType{}}
	for _, t := range offer.Types {
		out := InstanceType{
			Name: t.Name, Requirements: []Requirement{}, Capacity: quantities(t.Capacity), Offerings: []Offering{},
			Overhead:    Overhead{quantities(t.KubeReserved), quantities(t.SystemReserved), quantities(t.EvictionThreshold)},
			Allocatable: quantities(without(t.Capacity, t.Overhead)), Unusable: t.Unusable,
		}
		for _, key := range slices.Sorted(maps.Keys(t.Requirements)) {
			r := Requirement{Key: key, Operator: string(corev1.NodeSelectorOpIn), Values: t.Requirements[key]}
			if len(r.Values) == 0 {
				r.Operator = string(corev1.NodeSelectorOpDoesNotExist)
			}
			out.Requirements = append(out.Requirements, r)
		}
		for i, o := range t.Offerings {
			f := Offering{Zone: o.Zone, CapacityType: o.CapacityType, Available: o.Available, PlacementGroup: o.PlacementGroup, Partition: o.Partition}
			if o.Reservation != nil {
				f.ReservationID, f.ReservationCapacity = o.Reservation.ID, o.Reservation.Free
			}
			if micro := t.Prices[i]; micro > 0 {
				usd := float64(micro) / 1e6
				f.Price = &usd
			}
			out.Offerings = append(out.Offerings, f)
		}
		c.InstanceTypes = append(c.InstanceTypes, out)
	}
	return c
}

func without(capacity, overhead map[string]int64) map[string]int64 {
	out := maps.Clone(capacity)
	for name, n := range overhead {
		out[name] = max(0, out[name]-n)
	}
	return out
}

// quantities by resource; CPU is given in thousandths.
func quantities(amounts map[string]int64) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, n := range amounts {
		switch corev1.ResourceName(name) {
		case corev1.ResourceCPU:
			out[corev1.ResourceCPU] = *resource.NewMilliQuantity(n, resource.DecimalSI)
		case corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
			out[corev1.ResourceName(name)] = *resource.NewQuantity(n, resource.BinarySI)
		default:
			out[corev1.ResourceName(name)] = *resource.NewQuantity(n, resource.DecimalSI)
		}
	}
	return out
}

// WriteJSON writes the whole catalogue.
func (c Catalog) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(c)
}

// WriteTable writes a line for each type.
func (c Catalog) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tCPU\tMEMORY\tPODS\tALLOCATABLE CPU\tALLOCATABLE MEMORY\tON-DEMAND\tSPOT\tAVAILABLE")
	for _, it := range c.InstanceTypes {
		available := 0
		for _, o := range it.Offerings {
			if o.Available {
				available++
			}
		}
		why := ""
		if it.Unusable != "" {
			why = "; " + it.Unusable
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d of %d%s\n", it.Name, text(it.Capacity, corev1.ResourceCPU), text(it.Capacity, corev1.ResourceMemory),
			text(it.Capacity, corev1.ResourcePods), text(it.Allocatable, corev1.ResourceCPU), text(it.Allocatable, corev1.ResourceMemory),
			cheapest(it, "on-demand"), cheapest(it, "spot"), available, len(it.Offerings), why)
	}
	return t.Flush()
}

func text(l corev1.ResourceList, name corev1.ResourceName) string {
	q := l[name]
	return q.String()
}

// cheapest price of a capacity type; - if none is known.
func cheapest(t InstanceType, capacityType string) string {
	least := ""
	lowest := 0.0
	for _, o := range t.Offerings {
		if o.CapacityType == capacityType && o.Price != nil && (least == "" || *o.Price < lowest) {
			lowest = *o.Price
			least = fmt.Sprintf("%.4f", lowest)
		}
	}
	if least == "" {
		return "-"
	}
	return least
}
