package catalogue

import (
	"math"
	"slices"
	"strings"
	"sync"
)

// All returns every instance type, by name. The slice and the types are shared: do not change them.
var All = sync.OnceValue(func() []*Type {
	out := slices.Concat(ladderTypes(), burstableTypes(), listedTypes())
	for _, t := range out {
		complete(t)
	}
	slices.SortFunc(out, func(a, b *Type) int { return strings.Compare(a.Name, b.Name) })
	return out
})

var byName = sync.OnceValue(func() map[string]*Type {
	out := make(map[string]*Type, len(All()))
	for _, t := range All() {
		out[t.Name] = t
	}
	return out
})

// Lookup returns the type of that name, or nil.
func Lookup(name string) *Type { return byName()[name] }

// family is one family of a row of the ladder table.
type family struct {
	name        string
	perVCPU     float64
	cpu         string
	ghz         string
	set         string
	eni         string
	net         string
	ebs         string
	pod         string
	nvme        string
	transit     bool
	efa         string
	ladders     map[string]ladder
	efas        map[string]ladder
	exceptional map[string]string
}

func ladderTypes() []*Type {
	sets, steps, efas, exceptional := sizeSets(), ladders("ladders"), ladders("efa"), exceptions()
	var out []*Type
	for _, row := range rows("families") {
		for named := range strings.SplitSeq(row[0], ",") {
			name, price, _ := strings.Cut(strings.TrimSpace(named), " ")
			f := family{name: name, perVCPU: decimal(price), cpu: row[1], ghz: row[2], set: row[3], eni: row[4],
				net: row[5], ebs: row[6], pod: row[7], nvme: row[8], transit: row[9] == "y", efa: row[10],
				ladders: steps, efas: efas, exceptional: exceptional}
			for _, s := range sets[f.set] {
				out = append(out, f.expand(s))
			}
		}
	}
	return out
}

// value looks an attribute up: the exception of the size if there is one, else the ladder's step.
func (f *family) value(attribute, ladder string, s size) string {
	if v, ok := f.exceptional[attribute+" "+f.name+" "+s.name]; ok {
		return v
	}
	return f.ladders[ladder][s.alias]
}

func (f *family) expand(s size) *Type {
	vcpus := sizeVCPUs(s.alias)
	t := &Type{
		Name: f.name + "." + sizeName(s.name), Family: f.name, Size: sizeName(s.name), VCPUs: vcpus,
		MemoryMiB:    int64(vcpus) * memoryRatio(f.name) * 1024,
		Manufacturer: manufacturer(f.cpu), ClockGHz: decimal(f.ghz), EncryptionInTransit: f.transit,
		NetworkMbps: whole(f.value("net", f.net, s)), EBSMbps: whole(f.value("ebs", f.ebs, s)),
		BranchENIs: int(whole(f.value("pod", f.pod, s))), StorageGB: whole(f.value("nvme", f.nvme, s)),
		EFAs: int(whole(f.efas[f.efa][s.name])),
	}
	t.ENIs, t.IPv4PerENI, t.NetworkCards = interfaces(f.value("eni", f.eni, s))
	if ghz, ok := f.exceptional["ghz "+f.name+" "+s.name]; ok {
		t.ClockGHz = decimal(ghz)
	}
	factor := 1.0
	if v, ok := f.exceptional["price "+f.name+" "+s.name]; ok {
		factor = decimal(v)
	}
	t.PriceMicroUSD = micro(f.perVCPU * float64(vcpus) * factor)
	return t
}

// memoryRatio is GiB per vCPU.
func memoryRatio(family string) int64 {
	switch {
	case strings.HasPrefix(family, "x"):
		return 16
	case strings.HasPrefix(family, "r"), strings.HasPrefix(family, "i"):
		return 8
	case strings.HasPrefix(family, "m"):
		return 4
	}
	return 2
}

func manufacturer(cpu string) string {
	switch cpu {
	case "intel":
		return "Intel"
	case "amd":
		return "AMD"
	}
	return "AWS"
}

func micro(usd float64) int64 { return int64(math.Round(usd * 1e6)) }
