package drifthash

import (
	"strconv"

	"github.com/mitchellh/hashstructure/v2"
)

// structural is the decimal structural hash of v: lists are sets, absent equals empty. It panics on what
// cannot be hashed, which none of our types is.
func structural(v any) string {
	sum, err := hashstructure.Hash(v, hashstructure.FormatV2, &hashstructure.HashOptions{SlicesAsSets: true, IgnoreZeroValue: true, ZeroNil: true})
	if err != nil {
		panic("drifthash: " + err.Error())
	}
	return strconv.FormatUint(sum, 10)
}
