package ec2

import (
	"fmt"
	"math"
	"math/big"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"

	"millwright/api/reading"
)

// reservable are the resources that can be reserved; pid is not one that pods ask for.
var reservable = []string{string(corev1.ResourceCPU), string(corev1.ResourceMemory), string(corev1.ResourceEphemeralStorage)}

// overheadOf is what pods cannot have of the capacity (ec2 §1.3): kubeReserved + systemReserved + eviction
// threshold.
func (s *sizing) overheadOf(t *ec2types.InstanceTypeInfo, capacity map[string]int64) (map[string]int64, error) {
	kube, system, evict, err := s.overheadParts(t, capacity)
	if err != nil {
		return nil, err
	}
	out := map[string]int64{}
	for _, name := range reservable {
		if n := sum(kube[name], system[name], evict[name]); n != 0 {
			out[name] = n
		}
	}
	return out, nil
}

// sum of amounts that are not negative, at most what an int64 holds.
func sum(amounts ...int64) (total int64) {
	for _, n := range amounts {
		total += min(n, math.MaxInt64-total)
	}
	return total
}

// overheadParts are what overheadOf adds up.
func (s *sizing) overheadParts(t *ec2types.InstanceTypeInfo, capacity map[string]int64) (kube, system, evict map[string]int64, err error) {
	memory, storage := string(corev1.ResourceMemory), string(corev1.ResourceEphemeralStorage)
	kube = map[string]int64{
		string(corev1.ResourceCPU): kubeMilliCPU(vcpus(t)),
		memory:                     (11*s.reservedFor(t) + 255) * mi,
		storage:                    gi,
	}
	if err := override(kube, s.kubelet.KubeReserved); err != nil {
		return nil, nil, nil, fmt.Errorf("kubeReserved: %w", err)
	}
	system = map[string]int64{}
	if err := override(system, s.kubelet.SystemReserved); err != nil {
		return nil, nil, nil, fmt.Errorf("systemReserved: %w", err)
	}
	evict = map[string]int64{memory: 100 * mi, storage: portion(capacity[storage], big.NewRat(1, 10))}
	for signal, name := range map[string]string{"memory.available": memory, "nodefs.available": storage} {
		if text, ok := s.kubelet.EvictionHard[signal]; ok {
			n, err := threshold(text, capacity[name])
			if err != nil {
				return nil, nil, nil, fmt.Errorf("evictionHard %s: %w", signal, err)
			}
			evict[name] = n
		}
	}
	return kube, system, evict, nil
}

// reservedFor is the number of pods that memory is reserved for.
func (s *sizing) reservedFor(t *ec2types.InstanceTypeInfo) int64 {
	if s.family.reserveByENI {
		return eniPods(t, 0)
	}
	return s.pods(t)
}

// kubeMilliCPU: 6 % of the first core, 1 % of the second, 0.5 % of the next two, 0.25 % of the rest, each
// part in whole millicores.
func kubeMilliCPU(cores int64) int64 {
	total := int64(0)
	for _, part := range []struct{ cores, per100k int64 }{{1, 6000}, {1, 1000}, {2, 500}, {cores, 250}} {
		n := min(cores, part.cores)
		if n <= 0 {
			break
		}
		total += n * part.per100k / 100
		cores -= n
	}
	return total
}

func override(amounts map[string]int64, given map[string]string) error {
	for _, name := range reservable {
		text, ok := given[name]
		if !ok {
			continue
		}
		q, err := reading.Reservation(text)
		if err != nil {
			return fmt.Errorf("%s %q: %w", name, text, err)
		}
		amounts[name] = q.Value()
		if name == string(corev1.ResourceCPU) {
			amounts[name] = q.MilliValue()
		}
	}
	return nil
}

// threshold reads an eviction threshold: a quantity, or a percentage of the capacity, of which 100 % means
// none.
func threshold(text string, capacity int64) (int64, error) {
	amount, percent, err := reading.Threshold(text)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q: %w", text, err)
	case percent == nil:
		return amount.Value(), nil
	case percent.Cmp(big.NewRat(100, 1)) == 0:
		return 0, nil
	}
	return portion(capacity, percent.Quo(percent, big.NewRat(100, 1))), nil
}
