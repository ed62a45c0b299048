package catalogue

import (
	"slices"
	"strings"
)

// complete fills what follows from a type's name, processor and size, by EC2's own regularities.
func complete(t *Type) {
	t.BareMetal = strings.HasPrefix(t.Size, "metal")
	if t.BareMetal {
		t.Hypervisor = ""
	} else if t.Hypervisor == "" {
		t.Hypervisor = "nitro"
	}
	t.ENASupport = "required"
	if t.Hypervisor == "xen" {
		t.ENASupport = "supported"
		if t.Family == "c4" || t.Family == "t2" || t.Family == "m4" && t.Size != "16xlarge" {
			t.ENASupport = "unsupported"
		}
	}
	t.VirtualizationTypes = []string{"hvm"}
	t.ThreadsPerCore = threads(t)
	if t.Architectures == nil {
		t.Architectures = []string{architecture(t.Manufacturer)}
	}
	if t.UsageClasses == nil {
		t.UsageClasses = []string{"on-demand", "spot"}
	}
	if t.EBSOptimized == "" {
		t.EBSOptimized = "default"
	}
	completeStorage(t)
	t.PlacementStrategies = placement(t)
	t.NitroEnclaves = enclaves(t)
	t.Features = features(t)
}

func completeStorage(t *Type) {
	if t.StorageGB == 0 {
		t.StorageDisk, t.NVMeSupport = "", ""
		return
	}
	if t.StorageDisk == "" {
		t.StorageDisk = "ssd"
	}
	if t.NVMeSupport == "" {
		t.NVMeSupport = "required"
	}
}

func architecture(manufacturer string) string {
	if manufacturer == "AWS" {
		return "arm64"
	}
	return "x86_64"
}

// threads per core: Graviton, HPC types and AMD from the seventh generation have one.
func threads(t *Type) int {
	amdCore := t.Manufacturer == "AMD" && t.Generation() >= 7
	if t.VCPUs == 1 || t.Manufacturer == "AWS" || amdCore || t.Category() == "hpc" {
		return 1
	}
	return 2
}

func flex(t *Type) bool { return strings.HasSuffix(t.Family, "-flex") }

func placement(t *Type) []string {
	if t.Burstable || flex(t) {
		return []string{"partition", "spread"}
	}
	return []string{"cluster", "partition", "spread"}
}

var noEnclaves = []string{"a1", "c7gn", "g4ad", "g5g", "im4gn", "is4gen", "p6-b200", "trn1", "trn1n"}

// enclaves: virtual nitro types of at least 4 vCPUs (arm64 and the eighth AMD generation: 2), with
// exceptions.
func enclaves(t *Type) bool {
	if t.Hypervisor != "nitro" || t.Burstable || flex(t) || slices.Contains(noEnclaves, t.Family) {
		return false
	}
	if c := t.Category(); c == "hpc" || c == "u" {
		return false
	}
	least := 4
	if t.Arch() == "arm64" || strings.HasSuffix(t.Family, "8a") {
		least = 2
	}
	return t.VCPUs >= least
}

var nested = []string{"c7i", "m7i", "r7i", "c7i-flex", "m7i-flex", "r7iz", "i7i", "i7ie",
	"c8i", "m8i", "r8i", "c8i-flex", "m8i-flex", "r8i-flex", "c8id", "m8id", "r8id"}

var sevSNP = []string{"m6a", "c6a", "r6a"}

func features(t *Type) []string {
	switch {
	case !t.BareMetal && slices.Contains(nested, t.Family):
		return []string{"nested-virtualization"}
	case !t.BareMetal && slices.Contains(sevSNP, t.Family) && t.VCPUs <= 16:
		return []string{"amd-sev-snp"}
	}
	return nil
}
