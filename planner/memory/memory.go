// Package memory holds how much memory nodes were found to have (ec2 §1.2, "Discovered memory"): what a
// type's nodes have of what EC2 advertises depends on hypervisor and image, and is known once one has
// registered.
//
// A Table is immutable. The Ledger folds one from records, the World computes catalogues with it.
package memory

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"time"
)

const (
	// keptFor is how long an amount counts after it was last seen.
	keptFor = 60 * 24 * time.Hour
	// renewAfter is how old an amount is at least before it is worth another record that it is still so.
	renewAfter = 24 * time.Hour
	// tableMax bounds the amounts: all types that EC2 has, with a few releases of images.
	tableMax = 4000
)

// Key of an amount: an instance type, and the images of a NodeClass as Images names them.
type Key struct{ InstanceType, Images string }

// Amount of memory in bytes, and when a node was last seen that had it.
type Amount struct {
	Key   Key
	Bytes int64
	Seen  time.Time
}

// Table of amounts. It never changes; nil is an empty one. Two tables may be compared by identity.
type Table struct{ amounts map[Key]Amount }

// Images names a set of images by a hash of their ids, in whatever order they are; "" without any.
func Images(ids []string) string {
	if len(ids) == 0 {
		return ""
	}
	h := sha256.New()
	for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
		h.Write([]byte(id))
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// Restore makes a table of amounts; nil if there are none.
func Restore(amounts []Amount) *Table {
	if len(amounts) == 0 {
		return nil
	}
	t := &Table{amounts: make(map[Key]Amount, len(amounts))}
	for _, a := range amounts {
		t.amounts[a.Key] = a
	}
	return t
}

// All returns the amounts by type, then images.
func (t *Table) All() []Amount {
	if t == nil {
		return nil
	}
	return slices.SortedFunc(maps.Values(t.amounts), func(a, b Amount) int {
		return cmp.Or(cmp.Compare(a.Key.InstanceType, b.Key.InstanceType), cmp.Compare(a.Key.Images, b.Key.Images))
	})
}

// Of returns the amounts for a set of images, by type.
func (t *Table) Of(images string) []Amount {
	return slices.DeleteFunc(t.All(), func(a Amount) bool { return a.Key.Images != images })
}

// Get returns an amount; ok is false if none is known.
func (t *Table) Get(k Key) (a Amount, ok bool) {
	if t == nil {
		return a, false
	}
	a, ok = t.amounts[k]
	return a, ok
}

// countedAt is Get, but for what was last seen too long before.
func (t *Table) countedAt(k Key, at time.Time) (a Amount, ok bool) {
	a, ok = t.Get(k)
	return a, ok && at.Sub(a.Seen) < keptFor
}

// Learns reports that a node that was seen with an amount says something new: the first one, less than any
// before, or that what is known is still so. One that has more says nothing: another may have less again.
func (t *Table) Learns(a Amount) bool {
	known, ok := t.countedAt(a.Key, a.Seen)
	switch {
	case a.Bytes <= 0 || a.Key.InstanceType == "" || a.Key.Images == "":
		return false
	case !ok || a.Bytes < known.Bytes:
		return true
	}
	return a.Bytes == known.Bytes && a.Seen.Sub(known.Seen) >= renewAfter
}

// With returns the table after a node was seen with an amount. What was not seen for 60 days by then is
// forgotten, and of too many what was seen longest ago.
func (t *Table) With(a Amount) *Table {
	known, ok := t.countedAt(a.Key, a.Seen)
	if a.Bytes <= 0 || ok && a.Bytes > known.Bytes {
		return t
	}
	next := &Table{amounts: map[Key]Amount{a.Key: a}}
	for _, x := range t.All() {
		if x.Key != a.Key && a.Seen.Sub(x.Seen) < keptFor {
			next.amounts[x.Key] = x
		}
	}
	if len(next.amounts) > tableMax {
		all := next.All()
		slices.SortStableFunc(all, func(x, y Amount) int { return x.Seen.Compare(y.Seen) })
		delete(next.amounts, all[0].Key)
	}
	return next
}

// AsOf returns the table with no amount seen after a time, which a clock that was far ahead has recorded.
func (t *Table) AsOf(now time.Time) *Table {
	all := t.All()
	for i := range all {
		if all[i].Seen.After(now) {
			all[i].Seen = now
		}
	}
	return Restore(all)
}
