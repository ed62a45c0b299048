package volume

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"millwright/planner/options"
	"millwright/planner/requirement"
	"millwright/planner/world"
)

// Source looks up what restricts the places of a pod's volumes. Keys of claims are namespace/name.
type Source interface {
	PersistentVolumeClaim(key string) *corev1.PersistentVolumeClaim
	PersistentVolume(name string) *corev1.PersistentVolume
	StorageClass(name string) *storagev1.StorageClass
	CSINode(node string) *storagev1.CSINode
}

// Volumes is what a pod's volumes demand of its node.
type Volumes struct {
	// Alternatives: any one suffices; empty if the volumes can be anywhere.
	Alternatives []requirement.Set
	// Claims by CSI driver, sorted by driver, then claim.
	Claims []driverClaim
}

// driverClaim is a PersistentVolumeClaim that takes one attachment of a driver.
type driverClaim struct{ driver, claim string }

func (v *Volumes) Key() string {
	var b strings.Builder
	for _, s := range v.Alternatives {
		b.WriteString(s.Key())
		b.WriteByte('|')
	}
	for _, c := range v.Claims {
		b.WriteString(c.driver + "/" + c.claim + ",")
	}
	return b.String()
}

const (
	AnnotationBindCompleted = "pv.kubernetes.io/bind-completed"
	AnnotationSelectedNode  = "volume.kubernetes.io/selected-node"
	EbsDriver               = "ebs.csi.aws.com"
	// alternativesMax bounds the cross product of several volumes' terms.
	alternativesMax = 64
)

// inTree maps provisioners of in-tree plugins to their CSI drivers.
var inTree = map[string]string{"kubernetes.io/aws-ebs": EbsDriver}

// Of resolves a pod's volumes (scheduling §9). The error is the one that users know.
func Of(src Source, p *world.Pod, o *options.Options) (*Volumes, error) {
	var v *Volumes
	for i := range p.Class.Spec.Volumes {
		name := claimName(p, &p.Class.Spec.Volumes[i])
		if name == "" {
			continue
		}
		topology, driver, err := claimTopology(src, p.Namespace+"/"+name, o)
		if err != nil {
			return nil, err
		}
		if v == nil {
			v = &Volumes{}
		}
		v.Alternatives = cross(v.Alternatives, topology)
		if len(topology) > 0 && len(v.Alternatives) == 0 {
			return nil, errors.New("incompatible volume requirements, the pod's volumes are in places that exclude each other")
		}
		if driver != "" {
			v.Claims = append(v.Claims, driverClaim{driver, p.Namespace + "/" + name})
		}
	}
	if v != nil {
		slices.SortFunc(v.Claims, func(a, b driverClaim) int { return strings.Compare(a.driver+"/"+a.claim, b.driver+"/"+b.claim) })
		v.Claims = slices.Compact(v.Claims)
	}
	return v, nil
}

func claimName(p *world.Pod, v *corev1.Volume) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		return p.Name + "-" + v.Name
	}
	return ""
}

// cross combines alternatives, leaving out pairs that exclude each other. No alternatives mean anywhere.
func cross(a, b []requirement.Set) []requirement.Set {
	if len(a) == 0 {
		return b
	}
	if len(b) == 0 {
		return a
	}
	var out []requirement.Set
	for _, x := range a {
		for _, y := range b {
			if x.IntersectsSet(y) && len(out) < alternativesMax {
				out = append(out, x.Intersection(y))
			}
		}
	}
	return out
}

// claimTopology returns where the volume of a claim is or may be made, and its CSI driver.
func claimTopology(src Source, key string, o *options.Options) ([]requirement.Set, string, error) {
	pvc := src.PersistentVolumeClaim(key)
	switch {
	case pvc == nil:
		return nil, "", fmt.Errorf("getting persistent volume claim, persistentvolumeclaims %q not found", key[strings.Index(key, "/")+1:])
	case pvc.DeletionTimestamp != nil:
		return nil, "", errors.New("persistentvolumeclaim is being deleted")
	case pvc.Status.Phase == corev1.ClaimLost:
		return nil, "", errors.New("persistentvolumeclaim bound to non-existent persistentvolume")
	case pvc.Spec.VolumeName != "":
		return boundTopology(src, pvc, o)
	}
	return unboundTopology(src, pvc)
}

func boundTopology(src Source, pvc *corev1.PersistentVolumeClaim, o *options.Options) ([]requirement.Set, string, error) {
	pv := src.PersistentVolume(pvc.Spec.VolumeName)
	_, complete := pvc.Annotations[AnnotationBindCompleted]
	switch {
	case pv == nil:
		return nil, "", fmt.Errorf("failed to validate pvc, persistentvolumes %q not found", pvc.Spec.VolumeName)
	case pv.DeletionTimestamp != nil:
		return nil, "", errors.New("failed to validate pvc, persistentvolume is being deleted")
	case !complete:
		return nil, "", errors.New("pvc is considered unbound because it does not contain annotation")
	}
	terms := volumeTerms(pv)
	if labels := placeLabels(pv); labels.Len() > 0 && o.Revision >= options.Revision1 {
		terms = within(terms, labels)
	}
	return terms, volumeDriver(pv), nil
}

// volumeTerms are the ORed terms of the volume's node affinity, without the hostname of local volumes,
// which die with their node anyway.
func volumeTerms(pv *corev1.PersistentVolume) []requirement.Set {
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return nil
	}
	local := pv.Spec.Local != nil || pv.Spec.HostPath != nil
	var sets []requirement.Set
	for _, t := range pv.Spec.NodeAffinity.Required.NodeSelectorTerms {
		s := requirement.FromNodeSelector(nil, t)
		if local {
			s = s.Without(corev1.LabelHostname)
		}
		sets = append(sets, s)
	}
	return sets
}

// placeLabels is where the volume's labels say that it is, which kube-scheduler heeds beside its node
// affinity. Several zones are divided by two underscores; a label that leaves one empty says nothing.
func placeLabels(pv *corev1.PersistentVolume) (s requirement.Set) {
	for _, key := range []string{corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion, corev1.LabelTopologyZone, corev1.LabelTopologyRegion} {
		label, ok := pv.Labels[key]
		if !ok {
			continue
		}
		values := strings.Split(label, "__")
		for i := range values {
			values[i] = strings.TrimSpace(values[i])
		}
		if !slices.Contains(values, "") {
			s = s.Add(requirement.In(key, values...))
		}
	}
	return s
}

// within are the terms, each narrowed to a place; the place alone if there are none.
func within(terms []requirement.Set, place requirement.Set) []requirement.Set {
	if len(terms) == 0 {
		return []requirement.Set{place}
	}
	for i := range terms {
		terms[i] = terms[i].Intersection(place)
	}
	return terms
}

func volumeDriver(pv *corev1.PersistentVolume) string {
	switch {
	case pv.Spec.CSI != nil:
		return pv.Spec.CSI.Driver
	case pv.Spec.AWSElasticBlockStore != nil:
		return EbsDriver
	}
	return ""
}

func unboundTopology(src Source, pvc *corev1.PersistentVolumeClaim) ([]requirement.Set, string, error) {
	if pvc.Spec.StorageClassName == nil || *pvc.Spec.StorageClassName == "" {
		return nil, "", errors.New("unbound pvc must define a storage class")
	}
	name := *pvc.Spec.StorageClassName
	sc := src.StorageClass(name)
	switch {
	case sc == nil:
		return nil, "", fmt.Errorf("failed to validate pvc, failed to get storage class, storageclasses.storage.k8s.io %q not found", name)
	case sc.VolumeBindingMode == nil || *sc.VolumeBindingMode == storagev1.VolumeBindingImmediate:
		return nil, "", errors.New("failed to validate pvc, pvc with immediate volume binding mode must be bound")
	}
	var sets []requirement.Set
	for _, t := range sc.AllowedTopologies {
		var s requirement.Set
		for _, e := range t.MatchLabelExpressions {
			s = s.Add(requirement.In(e.Key, e.Values...))
		}
		sets = append(sets, s)
	}
	return sets, classDriver(sc), nil
}

func classDriver(sc *storagev1.StorageClass) string {
	if d, ok := inTree[sc.Provisioner]; ok {
		return d
	}
	return sc.Provisioner
}

// attachments are the claims of a pod that runs, as far as their drivers are known. Unlike those of one that
// waits, they count whatever has become of claims and volumes since: what is being deleted is still attached.
func attachments(src Source, p *world.Pod) *Volumes {
	v := &Volumes{}
	for i := range p.Class.Spec.Volumes {
		name := claimName(p, &p.Class.Spec.Volumes[i])
		if name == "" {
			continue
		}
		key := p.Namespace + "/" + name
		if driver := attachedDriver(src, src.PersistentVolumeClaim(key)); driver != "" {
			v.Claims = append(v.Claims, driverClaim{driver, key})
		}
	}
	return v
}

// attachedDriver of a claim; "" if it is not known.
func attachedDriver(src Source, pvc *corev1.PersistentVolumeClaim) string {
	if pvc == nil {
		return ""
	}
	if pvc.Spec.VolumeName != "" {
		if pv := src.PersistentVolume(pvc.Spec.VolumeName); pv != nil {
			return volumeDriver(pv)
		}
		return ""
	}
	if pvc.Spec.StorageClassName != nil {
		if sc := src.StorageClass(*pvc.Spec.StorageClassName); sc != nil {
			return classDriver(sc)
		}
	}
	return ""
}

// Pending reports that a node cannot take the pod yet, or is being prepared for it: it has not registered the
// driver of one of the volumes, or kube-scheduler has chosen it for one that is not made yet.
func Pending(src Source, node string, v *Volumes) bool {
	csi := src.CSINode(node)
	return slices.ContainsFunc(v.Claims, func(c driverClaim) bool {
		if pvc := src.PersistentVolumeClaim(c.claim); pvc != nil && pvc.Spec.VolumeName == "" && pvc.Annotations[AnnotationSelectedNode] == node {
			return true
		}
		return csi == nil || !slices.ContainsFunc(csi.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == c.driver })
	})
}

// Use counts the attachments of a node.
type Use struct {
	limits map[string]int
	claims map[driverClaim]bool
	count  map[string]int
}

// UseOf reads a node's limits and what its pods hold; by the rules before Revision1, nothing of a pod that
// would be refused for one of its volumes now.
func UseOf(src Source, node string, pods []*world.Pod, o *options.Options) *Use {
	u := &Use{limits: map[string]int{}, claims: map[driverClaim]bool{}, count: map[string]int{}}
	csi := src.CSINode(node)
	if csi == nil {
		return u
	}
	for _, d := range csi.Spec.Drivers {
		if d.Allocatable != nil && d.Allocatable.Count != nil {
			u.limits[d.Name] = int(*d.Allocatable.Count)
		}
	}
	for _, p := range pods {
		if p.Terminal() {
			continue
		}
		if o.Revision >= options.Revision1 {
			u.Add(attachments(src, p))
		} else if v, err := Of(src, p, o); err == nil && v != nil {
			u.Add(v)
		}
	}
	return u
}

func (u *Use) Clone() *Use {
	if u == nil {
		return nil
	}
	return &Use{limits: u.limits, claims: maps.Clone(u.claims), count: maps.Clone(u.count)}
}

func (u *Use) Add(v *Volumes) {
	for _, c := range v.Claims {
		if !u.claims[c] {
			u.claims[c] = true
			u.count[c.driver]++
		}
	}
}

// Exceeds says, in words, which limit the pod's volumes would break; "" if none.
func (u *Use) Exceeds(v *Volumes) string {
	more := map[string]int{}
	for _, c := range v.Claims {
		if !u.claims[c] {
			more[c.driver]++
		}
	}
	for _, c := range v.Claims {
		limit, limited := u.limits[c.driver]
		if n := u.count[c.driver] + more[c.driver]; limited && n > limit {
			return "checking volume usage, would exceed volume limit (driver=" + c.driver + ", limit=" + strconv.Itoa(limit) + ", usage=" + strconv.Itoa(n) + ")"
		}
	}
	return ""
}
