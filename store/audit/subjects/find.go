package subjects

import (
	"context"
	"errors"
	"slices"

	"millwright/planner/ledger"
	"millwright/store"
	"millwright/store/audit"
)

// storyMax bounds the records of a story, roundsMax how often it is looked whether what was found leads
// on.
const (
	storyMax  = 5000
	roundsMax = 16
)

// Find returns the sequences of the newest records below one (0: of all), at most limit, in order, that have
// one subject of each group, or of which hashes say so. more reports that there are others further back. A
// file that is gone or damaged is left out until Repair and Update.
func (x *Index) Find(groups [][]string, below uint64, limit int) (seqs []uint64, more bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if below == 0 {
		below = x.next
	}
	var hashes []uint64
	for _, g := range groups {
		for _, s := range g {
			hashes = append(hashes, hashOf(s))
		}
	}
	for n := len(x.files); n >= 0 && len(seqs) <= limit; n-- {
		var lists [][]uint64
		switch {
		case uint64(n)*ChunkSize+1 >= below || n < len(x.files) && x.files[n] == nil:
			continue
		case n < len(x.files):
			var err error
			if lists, err = x.files[n].find(hashes); err != nil {
				x.damaged.Store(true)
			}
		default:
			for _, h := range hashes {
				lists = append(lists, x.building.find(h))
			}
		}
		found := common(groups, lists)
		end, _ := slices.BinarySearch(found, below)
		found = found[:end]
		seqs = append(found[max(0, len(found)-(limit+1-len(seqs))):], seqs...)
	}
	if more = len(seqs) > limit; more {
		seqs = seqs[len(seqs)-limit:]
	}
	return seqs, more
}

// common are the sequences that a list of each group has, in order.
func common(groups [][]string, lists [][]uint64) (seqs []uint64) {
	if len(lists) == 0 {
		return nil
	}
	for i, g := range groups {
		union := slices.Concat(lists[:len(g)]...)
		lists = lists[len(g):]
		slices.Sort(union)
		union = slices.Compact(union)
		if i == 0 {
			seqs = union
			continue
		}
		seqs = slices.DeleteFunc(seqs, func(seq uint64) bool { _, found := slices.BinarySearch(union, seq); return !found })
	}
	return seqs
}

// Repair forgets the files from the first one on that Find has found gone or damaged, so that Update makes it
// anew. It reports whether there was one.
func (x *Index) Repair() bool {
	if !x.damaged.Swap(false) {
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for i, f := range x.files {
		if f == nil {
			continue
		}
		if _, err := findFile(f.path, x.logID, f.first); err == nil {
			continue
		}
		for _, later := range x.files[i:] {
			if later != nil {
				x.bytes -= later.bytes()
			}
		}
		x.files = x.files[:i]
		x.next = uint64(i)*ChunkSize + 1
		x.building = newChunk(x.next)
		return true
	}
	return false
}

// Story is the story of a subject as audit.Why tells it from the whole log, and the entries that it is of.
// cut reports that it has more records than are read, and begins later. Update comes first.
func (x *Index) Story(ctx context.Context, log Log, subject string) (lines []audit.Line, entries []ledger.Entry, cut bool, err error) {
	find := func(list []string) ([]uint64, bool) { return x.Find([][]string{list}, 0, storyMax) }
	entries, cut, err = Entries(ctx, log, subject, find)
	return audit.WhyOf(entries, log.ID(), subject), entries, cut, err
}

// Entries are the records that the story of a subject is of, in order: those that find has about it, and
// about what they lead to. cut is as of find.
func Entries(ctx context.Context, log Log, subject string, find func([]string) ([]uint64, bool)) (entries []ledger.Entry, cut bool, err error) {
	known := map[uint64]ledger.Entry{}
	list := []string{subject}
	for range roundsMax {
		var seqs []uint64
		seqs, cut = find(list)
		if err := Read(ctx, log, seqs, known); err != nil {
			return nil, false, err
		}
		entries = entries[:0]
		for _, seq := range seqs {
			if e, ok := known[seq]; ok {
				entries = append(entries, e)
			}
		}
		linked := audit.Linked(entries, log.ID(), subject)
		if len(linked) == len(list) {
			break
		}
		list = linked
	}
	return entries, cut, nil
}

// Read adds records to those known, in order, so that an archive is read forward. Neighbours are read at
// once. Those that cannot be had are left out.
func Read(ctx context.Context, log Log, seqs []uint64, known map[uint64]ledger.Entry) error {
	const near, together = 16, 500
	for i := 0; i < len(seqs); {
		if _, ok := known[seqs[i]]; ok {
			i++
			continue
		}
		end := i
		for end+1 < len(seqs) && seqs[end+1]-seqs[end] <= near && seqs[end+1]-seqs[i] < together {
			end++
		}
		wanted := seqs[i : end+1]
		for len(wanted) > 0 {
			err := Each(ctx, log, wanted[0], seqs[end], func(e ledger.Entry) error {
				if _, found := slices.BinarySearch(wanted, e.Seq); found {
					known[e.Seq] = e
				}
				return nil
			})
			if err == nil {
				break
			}
			if !errors.Is(err, store.ErrCompacted) {
				return err
			}
			for len(wanted) > 1 && has(known, wanted[0]) {
				wanted = wanted[1:]
			}
			wanted = wanted[1:] // the first that was not read
		}
		i = end + 1
	}
	return nil
}

func has(known map[uint64]ledger.Entry, seq uint64) bool {
	_, ok := known[seq]
	return ok
}
