package pseudonyms

import (
	"strings"

	bufferv1beta1 "millwright/api/autoscaling/v1beta1"
	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/ledger/names"
	"millwright/planner/memory"
	"millwright/planner/nodepool"
)

// computedName is one that planners compute from a record.
type computedName struct {
	pool    string
	seq     uint64
	index   int
	command bool
}

func (c computedName) of(logID string, rename func(string) string) string {
	if c.command {
		return ledger.CommandID(logID, c.seq)
	}
	return ledger.ClaimName(logID, rename(c.pool), c.seq, c.index)
}

// computedNames are those of the records, and of what is open where they begin.
func (b *renaming) computedNames() (list []computedName) {
	claims := func(seq uint64, planned []ledger.PlannedClaim) {
		for i := range planned {
			list = append(list, computedName{pool: planned[i].NodePool, seq: seq, index: i})
		}
	}
	command := func(seq uint64, c *ledger.CommandStarted) {
		list = append(list, computedName{seq: seq, command: true})
		claims(seq, c.Replacements)
	}
	for i := range b.records {
		e := &b.records[i].entry
		switch p := e.Payload.(type) {
		case *ledger.ProvisioningPlanned:
			claims(e.Seq, p.Claims)
		case *ledger.CommandStarted:
			command(e.Seq, p)
		case *ledger.CommandProposed:
			command(e.Seq, &p.Command)
		}
	}
	if b.ledger == nil {
		return list
	}
	for _, c := range b.ledger.Commands() {
		command(c.Seq, &c.Started)
	}
	for _, x := range b.ledger.Proposals() {
		command(x.Seq, &x.Proposed.Command)
	}
	return list
}

// replaced are the pseudonyms of computed names.
func (b *renaming) replaced() names.Replaced {
	r := names.Replaced{}
	for _, c := range b.computedNames() {
		r[c.of(b.newID, b.name)] = b.name(c.of(b.logID, func(s string) string { return s }))
	}
	return r
}

// virtualPods finds the names and UIDs that planners give the virtual pods of CapacityBuffers
// (planner.Buffer): a buffer's, and a number.
func (b *renaming) virtualPods() {
	buffers := b.source.world.CapacityBuffers()
	for _, m := range b.messages {
		if o, ok := m.observation.Object.(*bufferv1beta1.CapacityBuffer); ok {
			buffers = append(buffers, o)
		}
	}
	stems := map[string]string{}
	for _, o := range buffers {
		stems[planner.VirtualPodPrefix+o.Name] = planner.VirtualPodPrefix + b.name(o.Name)
		stems[string(o.UID)] = b.name(string(o.UID))
	}
	for w := range b.learning.words {
		i := strings.LastIndexByte(w, '-')
		if i < 0 || strings.Trim(w[i+1:], "0123456789") != "" {
			continue
		}
		if stem, ok := stems[w[:i]]; ok {
			b.computed[w] = stem + w[i:]
		}
	}
}

// computeHashes finds the hashes that planners compute of renamed objects, by those of the objects.
func (b *renaming) computeHashes() error {
	for _, m := range b.messages {
		switch o := m.observation.Object.(type) {
		case *karpv1.NodePool:
			object, err := b.renamed(m)
			if err != nil {
				return err
			}
			for _, version := range nodepool.VersionsRead {
				before, after := nodepool.Hashes(o, version), nodepool.Hashes(object.(*karpv1.NodePool), version)
				for i := range min(len(before), len(after)) {
					b.computed[before[i]] = after[i]
				}
			}
		case *awsv1.EC2NodeClass:
			object, err := b.renamed(m)
			if err != nil {
				return err
			}
			if before := memory.Images(images(o)); before != "" {
				b.computed[before] = memory.Images(images(object.(*awsv1.EC2NodeClass)))
			}
		}
	}
	return nil
}

func images(c *awsv1.EC2NodeClass) (list []string) {
	for _, i := range c.Status.AMIs {
		list = append(list, i.ID)
	}
	return list
}
