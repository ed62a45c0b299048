package pseudonyms

import (
	"slices"
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

// computeHashes finds the hashes that planners compute of renamed objects, by those of the objects: of all
// that the checkpoint of the World holds, and of all that messages bring.
func (b *renaming) computeHashes() error {
	pools, classes, err := b.hashed()
	if err != nil {
		return err
	}
	for _, p := range pools {
		for _, version := range nodepool.VersionsRead {
			before, after := nodepool.Hashes(p.was, version), nodepool.Hashes(p.is, version)
			for i := range min(len(before), len(after)) {
				b.computed[before[i]] = after[i]
			}
		}
	}
	for _, c := range classes {
		if before := memory.Images(images(c.was)); before != "" {
			b.computed[before] = memory.Images(images(c.is))
		}
	}
	b.computeTargets(pools, classes)
	return nil
}

// pair is an object and the renamed one.
type pair[T any] struct{ was, is T }

// hashed are the NodePools and the NodeClasses that hashes are computed of, in all their versions.
func (b *renaming) hashed() (pools []pair[*karpv1.NodePool], classes []pair[*awsv1.EC2NodeClass], err error) {
	add := func(was, is any) {
		switch o := was.(type) {
		case *karpv1.NodePool:
			pools = append(pools, pair[*karpv1.NodePool]{o, is.(*karpv1.NodePool)})
		case *awsv1.EC2NodeClass:
			classes = append(classes, pair[*awsv1.EC2NodeClass]{o, is.(*awsv1.EC2NodeClass)})
		}
	}
	var held []any
	for _, o := range b.source.world.NodePools() {
		held = append(held, o)
	}
	for _, o := range b.source.world.NodeClasses() {
		held = append(held, o)
	}
	for _, o := range held {
		is, err := b.asJSON("", o)
		if err != nil {
			return nil, nil, err
		}
		add(o, is)
	}
	for _, m := range b.messages {
		switch m.observation.Object.(type) {
		case *karpv1.NodePool, *awsv1.EC2NodeClass:
			is, err := b.renamed(m)
			if err != nil {
				return nil, nil, err
			}
			add(m.observation.Object, is)
		}
	}
	return pools, classes, nil
}

// computeTargets finds what roll-outs are told apart by (nodepool.Target). That of one that began before the
// bundle is in the Ledger's checkpoint only, so no decision that is taken again tells it.
func (b *renaming) computeTargets(pools []pair[*karpv1.NodePool], classes []pair[*awsv1.EC2NodeClass]) {
	none := &karpv1.NodePool{}
	seen := map[string]bool{}
	alone := func(p *karpv1.NodePool, c *awsv1.EC2NodeClass, name string) bool {
		key := nodepool.Target(p, c) + "/" + name
		first := !seen[key]
		seen[key] = true
		return first
	}
	classes = slices.DeleteFunc(classes, func(c pair[*awsv1.EC2NodeClass]) bool { return !alone(none, c.was, c.was.Name) })
	for _, p := range pools {
		ref := p.was.Spec.Template.Spec.NodeClassRef
		if ref == nil || !alone(p.was, nil, "of "+ref.Name) {
			continue
		}
		b.computed[nodepool.Target(p.was, nil)] = nodepool.Target(p.is, nil)
		for _, c := range classes {
			if c.was.Name == ref.Name {
				b.computed[nodepool.Target(p.was, c.was)] = nodepool.Target(p.is, c.is)
			}
		}
	}
}

func images(c *awsv1.EC2NodeClass) (list []string) {
	for _, i := range c.Status.AMIs {
		list = append(list, i.ID)
	}
	return list
}
