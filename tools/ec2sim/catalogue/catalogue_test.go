package catalogue

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAllTypesAreWhole(t *testing.T) {
	seen, families := map[string]bool{}, map[string]bool{}
	for _, it := range All() {
		if seen[it.Name] {
			t.Errorf("%s appears twice", it.Name)
		}
		seen[it.Name], families[it.Family] = true, true
		if it.VCPUs < 1 || it.MemoryMiB < 512 || it.ENIs < 2 || it.IPv4PerENI < 2 || it.NetworkCards < 1 || it.ClockGHz < 1 {
			t.Errorf("%s lacks a dimension: %+v", it.Name, it)
		}
		if it.EBSOptimized == "default" && it.EBSMbps == 0 {
			t.Errorf("%s has no EBS bandwidth", it.Name)
		}
		if it.PriceMicroUSD == 0 && it.Family != "trn2" {
			t.Errorf("%s has no price", it.Name)
		}
		if it.BareMetal != (it.Hypervisor == "") {
			t.Errorf("%s: bare metal %v with hypervisor %q", it.Name, it.BareMetal, it.Hypervisor)
		}
	}
	if len(seen) != 1054 || len(families) != 129 {
		t.Errorf("got %d types of %d families, want 1054 of 129", len(seen), len(families))
	}
}

func TestKnownTypes(t *testing.T) {
	type facts struct {
		VCPUs, Pods, Branch, EFAs, Cards int
		MemoryMiB, Net, EBS, Storage     int64
		Price                            int64
	}
	cases := map[string]facts{
		"t3.medium":      {2, 17, 0, 0, 1, 4096, 256, 2085, 0, 41600},
		"t4g.small":      {2, 11, 0, 0, 1, 2048, 128, 2085, 0, 16800},
		"t3a.small":      {2, 8, 0, 0, 1, 2048, 128, 2085, 0, 18800},
		"m5.large":       {2, 29, 9, 0, 1, 8192, 750, 4750, 0, 96000},
		"m6g.large":      {2, 29, 9, 0, 1, 8192, 750, 4750, 0, 77000},
		"m7i-flex.large": {2, 29, 3, 0, 1, 8192, 390, 10000, 0, 95760},
		"c6i.xlarge":     {4, 58, 18, 0, 1, 8192, 1562, 10000, 0, 170000},
		"i4i.large":      {2, 29, 9, 0, 1, 16384, 781, 10000, 468, 171600},
		"r6g.2xlarge":    {8, 58, 38, 0, 1, 65536, 2500, 4750, 0, 403200},
		"g4dn.xlarge":    {4, 29, 39, 0, 1, 16384, 5000, 3500, 125, 526000},
		"inf2.xlarge":    {4, 58, 18, 0, 1, 16384, 2083, 10000, 0, 758200},
		"c7g.16xlarge":   {64, 737, 107, 1, 1, 131072, 30000, 20000, 0, 2320000},
		"m5.metal":       {96, 737, 120, 0, 1, 393216, 25000, 19000, 0, 4608000},
		"p4d.24xlarge":   {96, 737, 62, 4, 4, 1179648, 400000, 19000, 8000, 21957600},
		"trn1.32xlarge":  {128, 247, 82, 8, 8, 524288, 800000, 80000, 7600, 21500000},
		"m8i.96xlarge":   {384, 1514, 98, 1, 1, 1572864, 100000, 80000, 0, 20321280},
		// types that do not follow the usual sizes
		"m6g.metal":          {64, 737, 107, 0, 1, 262144, 25000, 19000, 0, 2611840},
		"m7i.metal-24xlarge": {},
		"c6in.32xlarge":      {128, 394, 106, 2, 2, 262144, 200000, 100000, 0, 7257600},
		"i4i.24xlarge":       {96, 437, 105, 0, 1, 786432, 56250, 30000, 22500, 8236800},
		"c5a.24xlarge":       {96, 737, 107, 0, 1, 196608, 20000, 9500, 0, 3696000},
		"r5ad.24xlarge":      {96, 737, 107, 0, 1, 786432, 20000, 13570, 3600, 6288000},
		"x2gd.medium":        {1, 8, 10, 0, 1, 16384, 500, 4750, 59, 83500},
		"c5d.9xlarge":        {36, 234, 54, 0, 1, 73728, 12000, 9500, 900, 1728000},
		"c5n.large":          {2, 29, 9, 0, 1, 5376, 3000, 4750, 0, 108000},
		"i3.metal":           {72, 737, 120, 0, 1, 524288, 25000, 19000, 15200, 4992000},
	}
	for name, want := range cases {
		t.Run(name, func(t *testing.T) {
			it := Lookup(name)
			if want == (facts{}) {
				if it != nil {
					t.Fatalf("%s exists; bare-metal sizes are called metal-24xl", name)
				}
				return
			}
			if it == nil {
				t.Fatal("missing")
			}
			got := facts{it.VCPUs, it.ENIPods(), it.BranchENIs, it.EFAs, it.NetworkCards, it.MemoryMiB, it.NetworkMbps, it.EBSMbps,
				it.StorageGB, it.PriceMicroUSD}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
		})
	}
}

func TestDerivedFields(t *testing.T) {
	cases := map[string]bool{
		"a bare-metal Graviton 8 type costs a tenth more": Lookup("m8g.metal-24xl").PriceMicroUSD == 4739328,
		"m8i metal costs what its virtual size costs":     Lookup("m8i.metal-48xl").PriceMicroUSD == Lookup("m8i.48xlarge").PriceMicroUSD,
		"enclaves need four vCPUs on Intel":               !Lookup("m5.large").NitroEnclaves && Lookup("m5.xlarge").NitroEnclaves,
		"enclaves need two vCPUs on Graviton":             Lookup("m6g.large").NitroEnclaves && !Lookup("m6g.medium").NitroEnclaves,
		"burstables have no cluster placement groups":     len(Lookup("t3.medium").PlacementStrategies) == 2,
		"m4 runs on xen":                                   Lookup("m4.large").Hypervisor == "xen",
		"t2.nano is on-demand only":                        !Lookup("t2.nano").Supports("spot") && Lookup("t2.micro").Supports("spot"),
		"t2.medium lists i386 first":                       Lookup("t2.medium").Architectures[0] == "i386",
		"Graviton is arm64":                                Lookup("c7g.large").Arch() == "arm64",
		"p4d offers capacity blocks":                       Lookup("p4d.24xlarge").Supports("capacity-block"),
		"AMD's seventh generation has one thread per core": Lookup("m7a.large").ThreadsPerCore == 1 && Lookup("m6a.large").ThreadsPerCore == 2,
		"c5.24xlarge clocks higher than c5.large":          Lookup("c5.24xlarge").ClockGHz == 3.6 && Lookup("c5.large").ClockGHz == 3.4,
		"g6f has a fraction of a GPU":                      Lookup("g6f.large").GPUs[0].Count == 0 && Lookup("g6f.large").GPUs[0].Logical == 1,
		"g4ad's GPU is named with spaces":                  Lookup("g4ad.xlarge").GPUs[0].Name == "Radeon Pro V520",
		"inf1.24xlarge has sixteen devices":                Lookup("inf1.24xlarge").Neurons[0].Count == 16,
		"the disks of d3 are spinning":                     Lookup("d3.xlarge").StorageDisk == "hdd" && Lookup("d3.xlarge").NVMeSupport == "required",
		"generation of u7i-12tb is 7":                      Lookup("u7i-12tb.224xlarge").Generation() == 7,
		"category of im4gn is im":                          Lookup("im4gn.large").Category() == "im",
	}
	for sentence, holds := range cases {
		if !holds {
			t.Error("not so: " + sentence)
		}
	}
}
