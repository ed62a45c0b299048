package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/events"
)

// Change of what was recorded: objects in place of those of the same name, and prices of offerings.
type Change struct {
	Objects []metav1.Object
	// Prices are nil if there is no price list.
	Prices *events.Prices
}

// ReadChange reads what is to be laid over recorded Snapshots: NodePools, EC2NodeClasses, DisruptionPolicies,
// NodeOverlays and price lists. An *InputError says what is wrong.
func ReadChange(sources []Source) (Change, error) {
	var c Change
	f := newFeeder(time.Unix(0, 0))
	for _, s := range sources {
		found := len(c.Objects)
		prices := c.Prices
		if err := s.each(func(d *document) error { return f.change(d, &c) }); err != nil {
			return c, err
		}
		if len(c.Objects) == found && c.Prices == prices {
			return c, &InputError{File: s.Name, Err: errors.New("holds no NodePool, EC2NodeClass, DisruptionPolicy, NodeOverlay or price list")}
		}
	}
	return c, nil
}

// change adds what a document holds.
func (f *feeder) change(d *document, c *Change) error {
	fail := func(field string, err error) error { return d.fail("price list", field, err) }
	if raw, ok := priceList(d); ok {
		list, err := decodePrices(raw, fail)
		if err != nil {
			return err
		}
		if c.Prices == nil {
			c.Prices = &events.Prices{}
		}
		c.Prices.Entries = append(c.Prices.Entries, list.Entries...)
		return nil
	}
	return d.each(func(o *object) error {
		if err := f.once(d, o); err != nil {
			return err
		}
		if p, ok := o.meta.(*karpv1.NodePool); ok {
			completePool(p)
		}
		switch o.event {
		case events.KindNodePool, events.KindEC2NodeClass, events.KindDisruptionPolicy, events.KindNodeOverlay:
			c.Objects = append(c.Objects, o.meta)
		default:
			kind, _, _ := strings.Cut(o.label, " ")
			return d.fail(o.label, "kind", fmt.Errorf("%s cannot be changed in what was recorded: only NodePool, EC2NodeClass, DisruptionPolicy, NodeOverlay and price lists can", kind))
		}
		return nil
	})
}

// priceList reports that a document is one, and returns it as JSON.
func priceList(d *document) (raw []byte, ok bool) {
	raw = d.raw
	if !json.Valid(raw) {
		converted, err := toJSON(raw)
		if err != nil {
			return nil, false // said when it is read as an object
		}
		raw = converted
	}
	var head struct {
		Kind   string          `json:"kind"`
		Prices json.RawMessage `json:"prices"`
	}
	return raw, json.Unmarshal(raw, &head) == nil && head.Kind == "" && head.Prices != nil
}
