package catalogue

import (
	"strings"
)

// listedTypes reads the families that follow no ladder.
func listedTypes() []*Type {
	var out []*Type
	var header listedFamily
	for _, line := range lines("listed") {
		if !strings.HasPrefix(line, " ") {
			header = parseListedFamily(line)
			continue
		}
		out = append(out, header.expand(strings.Split(strings.TrimSpace(line), "/")))
		header.index++
	}
	return out
}

// listedFamily is a header line: the family's name and what all sizes, or single ones, have. Index is the
// position of the next size, which selects from the lists of GPU and Neuron counts.
type listedFamily struct {
	name  string
	attrs map[string]string
	index int
}

func parseListedFamily(line string) listedFamily {
	fields := strings.Fields(line)
	f := listedFamily{name: fields[0], attrs: map[string]string{}}
	for _, field := range fields[1:] {
		key, value, _ := strings.Cut(field, "=")
		f.attrs[key] = value
	}
	return f
}

// of returns an attribute: the size's own if the header has one ("ghz.16xl"), else the family's.
func (f *listedFamily) of(key, size string) string {
	if v, ok := f.attrs[key+"."+size]; ok {
		return v
	}
	return f.attrs[key]
}

// expand reads size/vCPU/GiB/ENI×IP/network/pod-eni/EBS/NVMe/price.
func (f *listedFamily) expand(cells []string) *Type {
	short := cells[0]
	t := &Type{
		Name: f.name + "." + sizeName(short), Family: f.name, Size: sizeName(short), VCPUs: int(whole(cells[1])),
		MemoryMiB: int64(decimal(cells[2]) * 1024), Manufacturer: manufacturer(f.attrs["cpu"]),
		ClockGHz: decimal(f.of("ghz", short)), NetworkMbps: whole(cells[4]), BranchENIs: int(whole(cells[5])),
		EBSMbps: whole(cells[6]), StorageGB: whole(cells[7]), PriceMicroUSD: micro(decimal(cells[8])),
		EncryptionInTransit: f.attrs["transit"] == "y", Hypervisor: f.attrs["hypervisor"], EFAs: f.efas(short),
		StorageDisk: f.attrs["disk"], NVMeSupport: f.attrs["nvme"], EBSOptimized: f.attrs["ebs"],
		Burstable: f.attrs["burstable"] == "y", Inference: f.attrs["inference"] == "y",
	}
	t.ENIs, t.IPv4PerENI, t.NetworkCards = interfaces(cells[3])
	if usage := f.of("usage", short); usage != "" {
		t.UsageClasses = strings.Split(usage, ",")
	}
	if within(f.attrs["i386"], short) {
		t.Architectures = []string{"i386", "x86_64"}
	}
	f.accelerate(t)
	return t
}

// efas reads "9xl:1,metal:1" or "*:4".
func (f *listedFamily) efas(short string) int {
	for entry := range strings.SplitSeq(f.attrs["efa"], ",") {
		size, count, _ := strings.Cut(entry, ":")
		if size == short || size == "*" {
			return int(whole(count))
		}
	}
	return 0
}

// accelerate adds GPUs ("NVIDIA/T4/16384", counts in gpus) and Neuron devices ("Inferentia/4/8192").
func (f *listedFamily) accelerate(t *Type) {
	if gpu, ok := f.attrs["gpu"]; ok {
		p := strings.Split(gpu, "/")
		g := GPU{Manufacturer: p[0], Name: strings.ReplaceAll(p[1], "_", " "), MemoryMiB: whole(nth(p[2], f.index)),
			Count: int(whole(nth(f.attrs["gpus"], f.index)))}
		if g.Count == 0 {
			g.Logical = 1
		}
		t.GPUs = []GPU{g}
	}
	if neuron, ok := f.attrs["neuron"]; ok {
		p := strings.Split(neuron, "/")
		t.Neurons = []Neuron{{Name: p[0], Cores: int(whole(p[1])), MemoryMiB: whole(p[2]),
			Count: int(whole(nth(f.attrs["neurons"], f.index)))}}
	}
}

// nth returns the n-th of a comma-separated list, the last if it is shorter.
func nth(list string, n int) string {
	parts := strings.Split(list, ",")
	return parts[min(n, len(parts)-1)]
}

func within(list, item string) bool {
	for entry := range strings.SplitSeq(list, ",") {
		if entry == item {
			return true
		}
	}
	return false
}
