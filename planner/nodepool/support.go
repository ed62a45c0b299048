package nodepool

import (
	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
)

// Supported: the pool's nodes are made from EC2NodeClasses. Others are none of ours.
func Supported(p *karpv1.NodePool) bool { return SupportedClass(p.Spec.Template.Spec.NodeClassRef) }

// SupportedClass reports that a reference, which may be nil, is to an EC2NodeClass.
func SupportedClass(ref *karpv1.NodeClassReference) bool {
	return ref != nil && ref.Group == awsv1.Group && ref.Kind == awsv1.KindNodeClass
}

// Ours: the pool is supported, or was meant to be: its nodeClassRef has our group or our kind, or cannot be
// read. Such a pool is told what is wrong with it; others belong to other providers' controllers.
func Ours(p *karpv1.NodePool) bool {
	ref := p.Spec.Template.Spec.NodeClassRef
	return p.Unreadable != "" || ref != nil && (ref.Group == awsv1.Group || ref.Kind == awsv1.KindNodeClass)
}
