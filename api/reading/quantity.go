package reading

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// A quantity takes the longer to parse the larger its exponent is (1e-2000000000 does for hours) and the more
// digits it has; the API server's patterns for our kinds bound neither.
const (
	exponentDigitsMax = 3
	quantityBytesMax  = 256
)

// quantityMaps are the fields of our kinds, in lower case, that hold quantities by the name of a resource.
var quantityMaps = map[string]bool{"limits": true, "requests": true, "resources": true, "capacity": true, "allocatable": true}

// isQuantity reports that a text below a field named parent is a quantity.
func isQuantity(parent, key string) bool {
	parent = strings.ToLower(parent)
	return quantityMaps[parent] || parent == "ebs" && strings.EqualFold(key, "volumeSize")
}

// Quantity parses a quantity that no API server has parsed before.
func Quantity(text string) (resource.Quantity, error) {
	if err := CheckQuantity(text); err != nil {
		return resource.Quantity{}, err
	}
	return resource.ParseQuantity(text)
}

// Reservation parses an amount that is kept from pods, which must not be negative.
func Reservation(text string) (resource.Quantity, error) {
	q, err := Quantity(text)
	if err == nil && q.Sign() < 0 {
		err = errors.New("amounts must not be negative")
	}
	return q, err
}

// Threshold parses an eviction threshold of the kubelet: a percentage from 0 to 100, of which 100 means none,
// or a quantity. percent is nil for a quantity.
func Threshold(text string) (amount resource.Quantity, percent *big.Rat, err error) {
	digits, isPercent := strings.CutSuffix(text, "%")
	if !isPercent {
		amount, err = Reservation(text)
		return amount, nil, err
	}
	ok := len(digits) <= quantityBytesMax && strings.Trim(digits, "+-.0123456789") == ""
	if ok {
		percent, ok = new(big.Rat).SetString(digits)
	}
	if !ok || percent.Sign() < 0 || percent.Cmp(big.NewRat(100, 1)) > 0 {
		return amount, nil, errors.New("percentages must be numbers from 0 to 100")
	}
	return amount, percent, nil
}

// CheckQuantity finds what must not be parsed, as a quantity or as another number.
func CheckQuantity(text string) error {
	if len(text) > quantityBytesMax {
		return fmt.Errorf("quantities must have at most %d characters, not %d", quantityBytesMax, len(text))
	}
	if i := strings.IndexAny(text, "eE"); i >= 0 && exponentDigits(text[i+1:]) > exponentDigitsMax {
		return fmt.Errorf("exponents of quantities must have at most %d digits: %q", exponentDigitsMax, text)
	}
	return nil
}

// exponentDigits counts the digits that text begins with, after a sign.
func exponentDigits[T string | []byte](text T) (n int) {
	for i := range len(text) {
		switch b := text[i]; {
		case '0' <= b && b <= '9':
			n++
		case i > 0 || b != '+' && b != '-':
			return n
		}
	}
	return n
}

// mayHoldLarge is false of nearly all objects, whose quantities need not be looked for then.
func mayHoldLarge(data []byte) bool {
	digits := 0
	for i, b := range data {
		switch {
		case '0' <= b && b <= '9' || b == '.':
			if digits++; digits > quantityBytesMax/2 {
				return true
			}
			continue
		case (b == 'e' || b == 'E') && digits > 0 && exponentDigits(data[i+1:min(i+8, len(data))]) > exponentDigitsMax:
			return true
		case b == '\\' && i+1 < len(data) && data[i+1] == 'u': // any of them may be written so
			return true
		}
		digits = 0
	}
	return false
}

// withoutLarge is an object without the quantities that must not be parsed, and what is wrong with the first
// of them, naming its field; "" if there is none. Text that is not a JSON object is returned as it is.
func withoutLarge(data []byte) ([]byte, string) {
	if !mayHoldLarge(data) {
		return data, ""
	}
	var object map[string]any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber() // in a float64 integers would lose digits
	if d.Decode(&object) != nil {
		return data, ""
	}
	fault := ""
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if !strings.EqualFold(key, "metadata") {
			removeLarge(object[key], key, key, &fault)
		}
	}
	if cleaned, err := json.Marshal(object); err == nil && fault != "" {
		return cleaned, fault
	}
	return data, fault
}

// NoQuantity is a text that every quantity refuses at once.
const NoQuantity = "a number that takes too long to read"

// WithNoQuantity is JSON with NoQuantity in place of each value that must not be parsed as a quantity,
// whatever its field is; data itself if there is none. What decodes so can be decoded as it was: no such
// value is in the place of a quantity.
func WithNoQuantity(data []byte) []byte {
	if !mayHoldLarge(data) {
		return data
	}
	var v any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return data
	}
	found := false
	v = replaceLarge(v, &found)
	if replaced, err := json.Marshal(v); err == nil && found {
		return replaced
	}
	return data
}

func replaceLarge(v any, found *bool) any {
	switch x := v.(type) {
	case map[string]any:
		for key, inner := range x {
			x[key] = replaceLarge(inner, found)
		}
	case []any:
		for i, inner := range x {
			x[i] = replaceLarge(inner, found)
		}
	default:
		if checkText(v) != nil {
			*found = true
			return NoQuantity
		}
	}
	return v
}

// removeLarge removes them below v, which is what a field named parent holds.
func removeLarge(v any, parent, path string, fault *string) {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if err := checkText(v[key]); err != nil && isQuantity(parent, key) {
				if *fault == "" {
					*fault = fmt.Sprintf("%s.%s: %v", path, key, err)
				}
				delete(v, key)
				continue
			}
			removeLarge(v[key], key, path+"."+key, fault)
		}
	case []any:
		for i, inner := range v {
			removeLarge(inner, "", fmt.Sprintf("%s[%d]", path, i), fault)
		}
	}
}

func checkText(v any) error {
	switch v := v.(type) {
	case string:
		return CheckQuantity(v)
	case json.Number:
		return CheckQuantity(v.String())
	}
	return nil
}
