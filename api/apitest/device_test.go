package apitest_test

import (
	"fmt"
	"slices"
)

func volumes() []verdict {
	ebs := func(fields string) string {
		return "blockDeviceMappings: [{deviceName: /dev/xvda, ebs: {" + fields + "}}]"
	}
	many := func(n int) string {
		return "blockDeviceMappings: [" + repeated(n, func(i int) string { return fmt.Sprintf("{deviceName: d%d}", i) }) + "]"
	}
	size := ebs("volumeSize: '%s'")
	const (
		sizes = `should match '^((?:[1-9][0-9]{0,3}|[1-4][0-9]{4}|[5][0-8][0-9]{3}|59000)Gi|(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|[6][0-3][0-9]{3}|64000)G|([1-9]||[1-5][0-7]|58)Ti|([1-9]||[1-5][0-9]|6[0-3]|64)T)$'`
		roots = "must have only one blockDeviceMappings with rootVolume"
		rate  = "snapshotID must be set when volumeInitializationRate is set"
	)
	return slices.Concat([]verdict{
		accepts("50 devices", many(50)),
		refuses("51 devices", many(51), "must have at most 50 items"),
		accepts("one root volume", "blockDeviceMappings: [{rootVolume: true}, {rootVolume: false}, {deviceName: x}]"),
		refuses("two root volumes", "blockDeviceMappings: [{rootVolume: true}, {rootVolume: true}]", roots),
		refuses("neither snapshot nor size", ebs("encrypted: true"), "snapshotID or volumeSize must be defined"),
		accepts("a snapshot", ebs("snapshotID: snap-1")),
		accepts("all fields of a volume", ebs("deleteOnTermination: true, encrypted: true, iops: 3000, kmsKeyID: k, snapshotID: s, throughput: 125, volumeSize: 20Gi, volumeType: gp3, volumeInitializationRate: 200")),
		accepts("initialization rate 100", ebs("snapshotID: s, volumeInitializationRate: 100")),
		accepts("initialization rate 300", ebs("snapshotID: s, volumeInitializationRate: 300")),
		refuses("initialization rate 99", ebs("snapshotID: s, volumeInitializationRate: 99"), "should be greater than or equal to 100"),
		refuses("initialization rate 301", ebs("snapshotID: s, volumeInitializationRate: 301"), "should be less than or equal to 300"),
		refuses("an initialization rate without snapshot", ebs("volumeSize: 1Gi, volumeInitializationRate: 200"), rate),
		refuses("an initialization rate with an empty snapshot", ebs("volumeSize: 1Gi, snapshotID: '', volumeInitializationRate: 200"), rate),
		refuses("a size as a number", ebs("volumeSize: 20"), `must be of type string: "integer"`),
	},
		each("size", size, "", "1Gi", "9999Gi", "58999Gi", "59000Gi", "1G", "63999G", "64000G", "1T", "64T", "1Ti", "9Ti", "10Ti", "17Ti", "57Ti", "58Ti", "Ti", "T"),
		each("size", size, sizes, "0Gi", "59001Gi", "60000Gi", "0G", "64001G", "0T", "65T", "0Ti", "18Ti", "59Ti", "64Ti", "20", "20Mi", "1.5Gi", "-1Gi", ""),
		each("volume type", ebs("snapshotID: s, volumeType: %s"), "", "standard", "io1", "io2", "gp2", "sc1", "st1", "gp3"),
		each("volume type", ebs("snapshotID: s, volumeType: %s"), `supported values: "standard", "io1", "io2", "gp2", "sc1", "st1", "gp3"`, "gp4", "GP3"),
	)
}

func interfaces() []verdict {
	nic := func(card, device int, kind string) string {
		return fmt.Sprintf("{networkCardIndex: %d, deviceIndex: %d, interfaceType: %s}", card, device, kind)
	}
	list := func(items string) string { return "networkInterfaces: [" + items + "]" }
	many := func(n int) string { return list(repeated(n, func(i int) string { return nic(0, i, "interface") })) }
	tracking := func(fields string) string { return "connectionTracking: {" + fields + "}" }
	primary := nic(0, 0, "interface")
	const (
		needsPrimary = "networkInterfaces must include a primary interface with interfaceType='interface'"
		duplicates   = "networkInterfaces must not have duplicate networkCardIndex and deviceIndex pairs, and can have at most one efa device per network card"
	)
	out := []verdict{
		accepts("a primary interface", list(primary)),
		accepts("a primary interface that comes last", list(nic(1, 1, "efa-only")+", "+primary)),
		accepts("an efa on each card", list(primary+", "+nic(0, 1, "efa-only")+", "+nic(1, 1, "efa-only"))),
		accepts("150 interfaces", many(150)),
		refuses("151 interfaces", many(151), "must have at most 150 items"),
		accepts("no interfaces", list("")),
		refuses("an efa as primary interface", list(nic(0, 0, "efa-only")), needsPrimary),
		refuses("no interface at 0,0", list(nic(0, 1, "interface")+", "+nic(1, 0, "interface")), needsPrimary),
		refuses("the same place twice", list(primary+", "+primary), duplicates),
		refuses("the same place twice, of two types", list(primary+", "+nic(1, 1, "interface")+", "+nic(1, 1, "efa-only")), duplicates),
		refuses("two efas on a card", list(primary+", "+nic(1, 1, "efa-only")+", "+nic(1, 2, "efa-only")), duplicates),
		refuses("a negative card", list(primary+", "+nic(-1, 0, "interface")), "should be greater than or equal to 0"),
		refuses("a negative device", list(primary+", "+nic(0, -1, "interface")), "should be greater than or equal to 0"),
		refuses("an unknown interface type", list(primary+", "+nic(0, 1, "efa")), `supported values: "interface", "efa-only"`),
		refuses("an interface without card", list("{deviceIndex: 0, interfaceType: interface}"), "Required value"),
		refuses("an interface without device", list("{networkCardIndex: 0, interfaceType: interface}"), "Required value"),
		refuses("an interface without type", list("{networkCardIndex: 0, deviceIndex: 0}"), "Required value"),
		refuses("connection tracking of nothing", tracking(""), "at least one of tcpEstablishedTimeout, udpStreamTimeout, or udpTimeout must be set"),
	}
	for _, b := range []struct {
		field    string
		min, max int
	}{{"tcpEstablishedTimeout", 60, 432000}, {"udpStreamTimeout", 60, 180}, {"udpTimeout", 30, 60}} {
		set := func(v int) string { return tracking(fmt.Sprintf("%s: %d", b.field, v)) }
		out = append(out, accepts(b.field+" at its least", set(b.min)), accepts(b.field+" at its most", set(b.max)),
			refuses(b.field+" below its least", set(b.min-1), fmt.Sprintf("should be greater than or equal to %d", b.min)),
			refuses(b.field+" above its most", set(b.max+1), fmt.Sprintf("should be less than or equal to %d", b.max)))
	}
	return out
}

func kubelets() []verdict {
	kubelet := func(fields string) string { return "kubelet: {" + fields + "}" }
	out := []verdict{
		accepts("all kubelet fields", kubelet("clusterDNS: ['10.0.0.10'], maxPods: 0, podsPerCore: 0, systemReserved: {cpu: 100m, memory: 1Gi, ephemeral-storage: 1Gi, pid: '100'}, "+
			"kubeReserved: {cpu: 100m}, evictionHard: {memory.available: 5%, nodefs.available: 10%, nodefs.inodesFree: 5%, imagefs.available: 100%, imagefs.inodesFree: 5%, pid.available: '100'}, "+
			"evictionSoft: {memory.available: 500Mi}, evictionSoftGracePeriod: {memory.available: 1m30s}, evictionMaxPodGracePeriod: 60, "+
			"imageGCHighThresholdPercent: 100, imageGCLowThresholdPercent: 0, cpuCFSQuota: false")),
		refuses("negative maxPods", kubelet("maxPods: -1"), "should be greater than or equal to 0"),
		refuses("negative podsPerCore", kubelet("podsPerCore: -1"), "should be greater than or equal to 0"),
		refuses("image GC thresholds that are equal", kubelet("imageGCHighThresholdPercent: 50, imageGCLowThresholdPercent: 50"), "imageGCHighThresholdPercent must be greater than imageGCLowThresholdPercent"),
		accepts("image GC thresholds one apart", kubelet("imageGCHighThresholdPercent: 51, imageGCLowThresholdPercent: 50")),
		accepts("one image GC threshold", kubelet("imageGCHighThresholdPercent: 1")),
		refuses("a soft eviction without grace", kubelet("evictionSoft: {memory.available: 5%}"), "evictionSoft OwnerKey does not have a matching evictionSoftGracePeriod"),
		refuses("a soft eviction with the grace of another", kubelet("evictionSoft: {memory.available: 5%}, evictionSoftGracePeriod: {nodefs.available: 1m}"), "evictionSoft OwnerKey does not have a matching evictionSoftGracePeriod"),
		refuses("a grace without soft eviction", kubelet("evictionSoftGracePeriod: {memory.available: 1m}"), "evictionSoftGracePeriod OwnerKey does not have a matching evictionSoft"),
		accepts("a grace that is no duration, refused at runtime", kubelet("evictionSoft: {memory.available: 5%}, evictionSoftGracePeriod: {memory.available: soon}")),
		accepts("an empty grace", kubelet("evictionSoft: {memory.available: 5%}, evictionSoftGracePeriod: {memory.available: ''}")),
		accepts("empty thresholds, refused at runtime", kubelet("evictionHard: {memory.available: ''}, evictionSoft: {memory.available: ''}, evictionSoftGracePeriod: {memory.available: 1m}")),
		refuses("a kubelet field that is not there", kubelet("seccompDefault: true"), `unknown field "spec.kubelet.seccompDefault"`),
	}
	for _, f := range []string{"imageGCHighThresholdPercent", "imageGCLowThresholdPercent"} {
		out = append(out, refuses(f+" -1", kubelet(f+": -1"), "should be greater than or equal to 0"), refuses(f+" 101", kubelet(f+": 101"), "should be less than or equal to 100"))
	}
	const signals = "['memory.available','nodefs.available','nodefs.inodesFree','imagefs.available','imagefs.inodesFree','pid.available']"
	for _, f := range []string{"evictionHard", "evictionSoft", "evictionSoftGracePeriod"} {
		value := "5%"
		if f == "evictionSoftGracePeriod" {
			value = "1m"
		}
		out = append(out, refuses(f+" of an unknown signal", kubelet(f+": {memory.free: "+value+"}"), "valid keys for "+f+" are "+signals))
	}
	eviction := kubelet("evictionHard: {memory.available: '%s'}")
	out = append(out, each("eviction at", eviction, "", "0%", "5%", "99.5%", "100%", "500Mi", "1Gi", "100")...)
	for _, v := range []string{"101%", "-5%", "5 %", "five"} {
		out = append(out, refuses("eviction at "+v, kubelet("evictionHard: {memory.available: '"+v+"'}"), "||"+quantityMessage[len("should match '^"):len(quantityMessage)-2]+")$'"))
	}
	for _, f := range []string{"systemReserved", "kubeReserved"} {
		out = append(out,
			refuses(f+" of an unknown resource", kubelet(f+": {gpu: '1'}"), "valid keys for "+f+" are ['cpu','memory','ephemeral-storage','pid']"),
			refuses(f+" that is negative", kubelet(f+": {cpu: -100m}"), f+" value cannot be a negative resource quantity"),
			refuses(f+" that is no quantity", kubelet(f+": {cpu: some}"), "("+quantityMessage[len("should match '^"):len(quantityMessage)-2]+")$'"))
	}
	return out
}
