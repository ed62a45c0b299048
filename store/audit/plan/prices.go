package plan

import (
	"encoding/json"
	"errors"
	"fmt"

	"millwright/events"
)

// pricesJSON is a price list as it is written. An entry without zone holds in every zone.
type pricesJSON struct {
	Prices []struct {
		InstanceType string `json:"instanceType"`
		CapacityType string `json:"capacityType"`
		Zone         string `json:"zone"`
		Price        price  `json:"price"`
	} `json:"prices"`
}

// ReadPrices reads a price list: its entries replace the prices that are known. An *InputError says what is
// wrong with it.
func ReadPrices(from Source) (*events.Prices, error) {
	raw, err := from.all()
	if err != nil {
		return nil, err
	}
	return decodePrices(raw, func(field string, err error) error {
		return &InputError{File: from.Name, Document: 1, Object: "price list", Field: field, Err: err}
	})
}

// decodePrices reads a price list; fail says where a fault is.
func decodePrices(raw []byte, fail func(field string, err error) error) (_ *events.Prices, err error) {
	if !json.Valid(raw) {
		if raw, err = toJSON(raw); err != nil {
			return nil, fail("", err)
		}
	}
	var list pricesJSON
	if r := decodeWhole(raw, &list, func() any { return &pricesJSON{} }); r != nil {
		return nil, fail(r.path, plain(r.err))
	}
	out := &events.Prices{}
	for i, p := range list.Prices {
		path := fmt.Sprintf("prices[%d]", i)
		switch {
		case p.InstanceType == "":
			return nil, fail(path+".instanceType", errors.New("is missing"))
		case p.CapacityType == "":
			return nil, fail(path+".capacityType", errors.New("is missing"))
		case p.Price.pico == 0:
			return nil, fail(path+".price", errors.New("is missing"))
		}
		out.Entries = append(out.Entries, events.Price{InstanceType: p.InstanceType, CapacityType: p.CapacityType, Zone: p.Zone, MicroUSDPerHour: p.Price.micro()})
	}
	return out, nil
}
