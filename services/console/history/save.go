package history

import (
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"time"

	"millwright/planner/ledger"
	"millwright/store/audit/overview"
)

// A file is a line that names format and log, the CRC of the rest, and the rest.
const (
	savedFormat = "millwright history 5 "
	savedMax    = 512 << 20
)

var errSaved = errors.New("not a history of this log")

// saved is a History as it is kept: derived from the log, of which it may be made again.
type saved struct {
	Rings                            [][]savedSlot
	Claims                           map[string]savedClaim
	Commands                         []savedCommand
	Taking                           map[string]string
	Doomed                           []savedDoom
	FirstSeq, Last, Missed, Unpriced uint64
	Health                           overview.Health
	Costs                            map[string]savedCost
	FirstTime                        time.Time
	Spot                             []savedSpans[string, spotSums]
	Shares                           []savedSpans[share, weight]
	Label                            string
}

type savedCost struct {
	Instances int
	Micro     int64
	First     time.Time
}

type savedSlot struct {
	At    time.Time
	Cells map[cell]savedSums
}

type savedSums struct {
	Sums
	Nodes int
	Price int64
}

type savedClaim struct {
	Pool    string
	Price   int64
	Up      bool
	Since   time.Time
	Command string
	Going   string

	Spot     bool
	OnDemand int64
}

type savedCommand struct {
	ID            string
	At            time.Time
	Reason        string
	State         State
	Nodes         map[string]savedTaken
	After, Bought int64
}

type savedTaken struct {
	Pool  string
	Price int64
	Pods  map[string]int
	Teams map[string]int
	Ended bool
}

type savedDoom struct {
	At     time.Time
	Reason string
}

// Last is the last record that was counted; 0: none was.
func (h *History) Last() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}

// Save writes a file as a whole or not at all.
func (h *History) Save(file string) error {
	var body bytes.Buffer
	if err := gob.NewEncoder(&body).Encode(h.asSaved()); err != nil {
		return fmt.Errorf("write history: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".history-*")
	if err != nil {
		return fmt.Errorf("write history: %w", err)
	}
	_, err = fmt.Fprintf(f, "%s%s\n", savedFormat, h.logID)
	if err == nil {
		_, err = f.Write(binary.LittleEndian.AppendUint32(nil, crc32.ChecksumIEEE(body.Bytes())))
	}
	if err == nil {
		_, err = f.Write(body.Bytes())
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // half of it is of no use
		return fmt.Errorf("write history: %w", err)
	}
	return nil
}

// Load reads what Save has written. Whatever is wrong with the file, History can be made anew from the log.
func Load(file, logID string) (*History, error) {
	if info, err := os.Stat(file); err != nil || info.Size() > savedMax {
		return nil, errors.Join(errSaved, err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read history: %w", err)
	}
	b, found := bytes.CutPrefix(b, []byte(savedFormat+logID+"\n"))
	if !found || len(b) < 4 || crc32.ChecksumIEEE(b[4:]) != binary.LittleEndian.Uint32(b) {
		return nil, errSaved
	}
	s := &saved{}
	if err := gob.NewDecoder(bytes.NewReader(b[4:])).Decode(s); err != nil || len(s.Rings) != len(resolutions) || len(s.Spot) != len(New("").spot) || len(s.Shares) != len(s.Spot) {
		return nil, errors.Join(errSaved, err)
	}
	return s.history(logID), nil
}

func (h *History) asSaved() *saved {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &saved{Claims: map[string]savedClaim{}, Taking: maps.Clone(h.taking), FirstSeq: h.first.Seq, FirstTime: h.first.Time, Last: h.last, Missed: h.missed,
		Unpriced: uint64(h.unpriced), Health: h.health, Costs: map[string]savedCost{}, Label: h.label}
	for i := range h.rings {
		slots := []savedSlot{}
		for _, x := range h.rings[i].spans {
			slot := savedSlot{At: x.at, Cells: map[cell]savedSums{}}
			for by, sums := range x.cells {
				slot.Cells[by] = savedSums{Sums: *sums, Nodes: sums.nodes, Price: sums.price}
			}
			slots = append(slots, slot)
		}
		s.Rings = append(s.Rings, slots)
	}
	for name, c := range h.claims {
		s.Claims[name] = savedClaim{c.pool, c.price, c.up, c.since, c.command, c.going, c.spot, c.onDemand}
	}
	for _, id := range h.order {
		c := h.commands[id]
		x := savedCommand{ID: id, At: c.at, Reason: c.reason, State: c.state, Nodes: map[string]savedTaken{}, After: c.after, Bought: c.bought}
		for claim, n := range c.nodes {
			x.Nodes[claim] = savedTaken{n.pool, n.price, maps.Clone(n.pods), n.teams, n.ended}
		}
		s.Commands = append(s.Commands, x)
	}
	for i := range h.spot {
		s.Spot, s.Shares = append(s.Spot, h.spot[i].asSaved()), append(s.Shares, h.shares[i].asSaved())
	}
	for pool, c := range h.costs {
		s.Costs[pool] = savedCost{c.instances, c.micro, c.first}
	}
	for _, d := range h.doomed {
		s.Doomed = append(s.Doomed, savedDoom{d.at, d.reason})
	}
	return s
}

func (s *saved) history(logID string) *History {
	h := New(logID)
	h.first, h.last, h.missed, h.unpriced = ledger.Entry{Seq: s.FirstSeq, Time: s.FirstTime}, s.Last, s.Missed, int(s.Unpriced)
	h.health, h.label = s.Health, s.Label
	for i, slots := range s.Rings {
		for _, x := range slots {
			cells := map[cell]*Sums{}
			for by, sums := range x.Cells {
				sums.nodes, sums.price = sums.Nodes, sums.Price
				cells[by] = &sums.Sums
			}
			h.rings[i].spans = append(h.rings[i].spans, slot{at: x.At, cells: cells})
			h.rings[i].cells += len(cells)
		}
	}
	for name, c := range s.Claims {
		h.claims[name] = &claim{pool: c.Pool, price: c.Price, up: c.Up, since: c.Since, command: c.Command, going: c.Going, spot: c.Spot, onDemand: c.OnDemand}
	}
	for _, x := range s.Commands {
		c := &Command{at: x.At, reason: x.Reason, state: x.State, nodes: map[string]*taken{}, after: x.After, bought: x.Bought}
		for name, n := range x.Nodes {
			if n.Pods == nil {
				n.Pods = map[string]int{}
			}
			c.nodes[name] = &taken{pool: n.Pool, price: n.Price, pods: n.Pods, teams: n.Teams, ended: n.Ended}
		}
		h.commands[x.ID], h.order = c, append(h.order, x.ID)
	}
	for i, x := range s.Spot {
		h.spot[i].restore(x)
		h.shares[i].restore(s.Shares[i])
	}
	maps.Copy(h.taking, s.Taking)
	for pool, c := range s.Costs {
		h.costs[pool] = &poolCost{c.Instances, c.Micro, c.First}
	}
	for _, d := range s.Doomed {
		h.doomed = append(h.doomed, doom{d.At, d.Reason})
	}
	return h
}
