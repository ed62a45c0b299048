package catalogue

// burstable sizes: memory in MiB, interfaces, network Mbps, and the price as a share of medium's in eighths.
var burstableSizes = []struct {
	name    string
	memory  int64
	eni     string
	net     int64
	ebs     int64
	eighths int64
}{
	{"nano", 512, "2x2", 32, 2085, 1},
	{"micro", 1024, "2x2", 64, 2085, 2},
	{"small", 2048, "3x4", 128, 2085, 4},
	{"medium", 4096, "3x6", 256, 2085, 8},
	{"large", 8192, "3x12", 512, 2780, 16},
	{"xl", 16384, "4x15", 1024, 2780, 32},
	{"2xl", 32768, "4x15", 2048, 2780, 64},
}

var burstableFamilies = []struct {
	name   string
	cpu    string
	ghz    float64
	medium int64 // micro USD per hour
}{
	{"t3", "intel", 2.5, 41600},
	{"t3a", "amd", 2.2, 37600},
	{"t4g", "aws", 2.5, 33600},
}

func burstableTypes() []*Type {
	var out []*Type
	for _, f := range burstableFamilies {
		for _, s := range burstableSizes {
			t := &Type{
				Name: f.name + "." + sizeName(s.name), Family: f.name, Size: sizeName(s.name), Burstable: true,
				VCPUs: max(2, sizeVCPUs(s.name)), MemoryMiB: s.memory, Manufacturer: manufacturer(f.cpu), ClockGHz: f.ghz,
				NetworkMbps: s.net, EBSMbps: s.ebs, PriceMicroUSD: f.medium * s.eighths / 8,
			}
			t.ENIs, t.IPv4PerENI, t.NetworkCards = interfaces(s.eni)
			if t.Name == "t3a.small" {
				t.ENIs = 2
			}
			out = append(out, t)
		}
	}
	return out
}
