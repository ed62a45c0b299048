// Package nodeclass resolves an EC2NodeClass: what its selectors mean in EC2 now, whether its fields make
// sense, and which conditions follow. It decides what the object should look like; its caller writes it.
//
// Signatures for callers:
//
//	func New(cfg Config) *Reconciler
//	func (r *Reconciler) Reconcile(ctx context.Context, nc *awsv1.EC2NodeClass, claims []*karpv1.NodeClaim) (Change, time.Duration, error)
//	func (r *Reconciler) CollectProfiles(ctx context.Context, classes []*awsv1.EC2NodeClass, claims []*karpv1.NodeClaim) error // every half hour
//	func Apply(ctx context.Context, w Writer, before *awsv1.EC2NodeClass, c Change) error
//	func (h Hasher) Current(nc *awsv1.EC2NodeClass) (hash, version string)
//	func Ready(nc *awsv1.EC2NodeClass) error   // nil, or why no launch may use it (*ec2.Failure, class NotReady)
//
// claims are all NodeClaims that refer to the class. The duration is when to reconcile again at the latest; also
// reconcile on any change of the object and when one of its NodeClaims goes. An error is about the cloud or
// the API server: what was resolved before stays in the status, Change still holds what did work and
// should be applied, and the call is repeated with backoff.
//
// Apply writes in the one safe order: NodeClaim stamps (hash of a new version), then metadata (finalizer, own
// hash), then status; each only if it differs. A conflict is returned as it is: reconcile again.
//
// Reconcile blocks on AWS calls and has no goroutine of its own: run it as an effect (key "nodeclass/<name>",
// not creating), one at a time per class; different classes may run at once. Events of the Change name the object and
// the field; hand them to Host.Event.
package nodeclass
