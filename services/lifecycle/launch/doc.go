// Package launch turns a NodeClaim into the bytes of one CreateFleet request, and the instance that came of
// it into the NodeClaim's details.
//
// The order of a launch (DESIGN §5), with what this package gives to each step:
//
//	marks := launch.Marks(types, ledgerUnavailable)    // under the Ledger's lock: only look-ups, no I/O
//	built, err := builder.Build(ctx, launch.Input{…})  // reads AWS, ensures launch templates; no instance yet
//	request, err := launch.EncodeRequest(built.Request)
//	→ append LaunchRequested{Request: request, LaunchTemplates: built.Templates, Token: in.Token}
//	input, err := launch.DecodeRequest(record.Request) // always from the record: same bytes, same token
//	result, err := cloud.CreateFleet(ctx, input)       // services/internal/ec2
//	failure := result.Failure()                        // nil if an instance came of it
//	→ append Launched or LaunchFailed
//	details := launch.Details(hasher, nodeClass, claim, instanceType, result.Instances[0])
//
// Signatures for callers:
//
//	func New(cfg Config) *Builder
//	func (b *Builder) Build(ctx context.Context, in Input) (Built, error)
//	func (b *Builder) Forget(refs []ledger.LaunchTemplateRef)    // after LaunchTemplateNotFound
//	func (b *Builder) DeleteTemplates(ctx context.Context, nodeClass string) error
//	func (b *Builder) CollectTemplates(ctx context.Context, keep map[string]bool) error // every few hours
//	func NewClusterSource(cfg ClusterConfig) *ClusterSource      // Get, CIDR, Version: what nodes must know
//	func Select(in Input) (Selection, error)                     // pure: which offerings a launch may use
//	func Marks(types []*catalog.InstanceType, unavailable func(ledger.OfferingKey) bool) map[ledger.OfferingKey]bool
//	func EncodeRequest(*ec2.CreateFleetInput) ([]byte, error)
//	func DecodeRequest([]byte) (*ec2.CreateFleetInput, error)
//	func Details(h nodeclass.Hasher, nc *awsv1.EC2NodeClass, claim *karpv1.NodeClaim, t *catalog.InstanceType, i ec2.Instance) ClaimDetails
//	func ProviderID(zone, instanceID string) string
//	func ParseProviderID(id string) (zone, instanceID string, err error)
//
// Errors of Build are *ec2.Failure (services/internal/ec2) whenever they say something about the claim;
// ec2.Classify works on them. NoCapacity: doom the claim (insufficient_capacity). NotReady: doom it
// (nodeclass_not_ready). Anything else: set Launched to Unknown with Failure.Reason and try again with
// backoff. Nothing that Build does has to be undone.
//
// Guarantees: user data, templates and requests are the same bytes for equal inputs; the request names launch
// templates by id and explicit version; a request holds no reference to its inputs. Not guaranteed: that
// EC2 has capacity, or that a template still exists when the request is sent.
package launch
