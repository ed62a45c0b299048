package kube

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	bufferv1beta1 "millwright/api/autoscaling/v1beta1"
	karpv1 "millwright/api/karpenter/v1"
	karpv1alpha1 "millwright/api/karpenter/v1alpha1"
	awsv1 "millwright/api/karpenteraws/v1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
)

// Client-side limits of requests to the API server, shared by all calls of one Client.
const (
	DefaultQPS   = 200
	DefaultBurst = 300
)

const contentTypeProtobuf = "application/vnd.kubernetes.protobuf"

// Scheme knows the core types and ours.
var Scheme = newScheme()

func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(clientscheme.AddToScheme(s))
	utilruntime.Must(karpv1.AddToScheme(s))
	utilruntime.Must(karpv1alpha1.AddToScheme(s))
	utilruntime.Must(awsv1.AddToScheme(s))
	utilruntime.Must(mwv1alpha1.AddToScheme(s))
	utilruntime.Must(bufferv1beta1.AddToScheme(s))
	return s
}

// Client talks to one API server. It is safe for concurrent use.
type Client struct {
	Core         kubernetes.Interface
	NodePools    *Resource[*karpv1.NodePool, *karpv1.NodePoolList]
	NodeClaims   *Resource[*karpv1.NodeClaim, *karpv1.NodeClaimList]
	NodeOverlays *Resource[*karpv1alpha1.NodeOverlay, *karpv1alpha1.NodeOverlayList]
	NodeClasses  *Resource[*awsv1.EC2NodeClass, *awsv1.EC2NodeClassList]
	Buffers      *Resource[*bufferv1beta1.CapacityBuffer, *bufferv1beta1.CapacityBufferList]
	Policies     *Resource[*mwv1alpha1.DisruptionPolicy, *mwv1alpha1.DisruptionPolicyList]
}

// New returns a Client. The config is not changed; QPS and Burst of 0 mean the defaults.
func New(config *rest.Config) (*Client, error) {
	cfg := rest.CopyConfig(config)
	limit(cfg)
	core, err := newCore(cfg)
	if err != nil {
		return nil, fmt.Errorf("build core client: %w", err)
	}
	karp, err := newREST(cfg, karpv1.SchemeGroupVersion)
	if err != nil {
		return nil, fmt.Errorf("build client for %s: %w", karpv1.Group, err)
	}
	alpha, err := newREST(cfg, karpv1alpha1.SchemeGroupVersion)
	if err != nil {
		return nil, fmt.Errorf("build client for %s: %w", karpv1alpha1.SchemeGroupVersion, err)
	}
	aws, err := newREST(cfg, awsv1.SchemeGroupVersion)
	if err != nil {
		return nil, fmt.Errorf("build client for %s: %w", awsv1.Group, err)
	}
	own, err := newREST(cfg, mwv1alpha1.SchemeGroupVersion)
	if err != nil {
		return nil, fmt.Errorf("build client for %s: %w", mwv1alpha1.Group, err)
	}
	buffers, err := newREST(cfg, bufferv1beta1.SchemeGroupVersion)
	if err != nil {
		return nil, fmt.Errorf("build client for %s: %w", bufferv1beta1.Group, err)
	}
	return &Client{
		Core: core,
		Buffers: newResource("capacitybuffers", buffers,
			func() *bufferv1beta1.CapacityBuffer { return &bufferv1beta1.CapacityBuffer{} },
			func() *bufferv1beta1.CapacityBufferList { return &bufferv1beta1.CapacityBufferList{} }),
		NodePools: newResource("nodepools", karp,
			func() *karpv1.NodePool { return &karpv1.NodePool{} },
			func() *karpv1.NodePoolList { return &karpv1.NodePoolList{} }),
		NodeClaims: newResource("nodeclaims", karp,
			func() *karpv1.NodeClaim { return &karpv1.NodeClaim{} },
			func() *karpv1.NodeClaimList { return &karpv1.NodeClaimList{} }),
		NodeOverlays: newResource("nodeoverlays", alpha,
			func() *karpv1alpha1.NodeOverlay { return &karpv1alpha1.NodeOverlay{} },
			func() *karpv1alpha1.NodeOverlayList { return &karpv1alpha1.NodeOverlayList{} }),
		NodeClasses: newResource("ec2nodeclasses", aws,
			func() *awsv1.EC2NodeClass { return &awsv1.EC2NodeClass{} },
			func() *awsv1.EC2NodeClassList { return &awsv1.EC2NodeClassList{} }),
		Policies: newResource("disruptionpolicies", own,
			func() *mwv1alpha1.DisruptionPolicy { return &mwv1alpha1.DisruptionPolicy{} },
			func() *mwv1alpha1.DisruptionPolicyList { return &mwv1alpha1.DisruptionPolicyList{} }),
	}, nil
}

// limit gives the config one rate limiter, which all clients built from it then share.
func limit(cfg *rest.Config) {
	if cfg.QPS == 0 {
		cfg.QPS = DefaultQPS
	}
	if cfg.Burst == 0 {
		cfg.Burst = DefaultBurst
	}
	if cfg.RateLimiter == nil && cfg.QPS > 0 {
		cfg.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(cfg.QPS, cfg.Burst)
	}
}

func newCore(cfg *rest.Config) (kubernetes.Interface, error) {
	c := rest.CopyConfig(cfg)
	c.ContentType = contentTypeProtobuf
	c.AcceptContentTypes = contentTypeProtobuf + ",application/json"
	return kubernetes.NewForConfig(c)
}

func newREST(cfg *rest.Config, gv schema.GroupVersion) (rest.Interface, error) {
	c := rest.CopyConfig(cfg)
	c.GroupVersion = &gv
	c.APIPath = "/apis"
	c.ContentType = "application/json"
	c.AcceptContentTypes = ""
	c.NegotiatedSerializer = serializer.NewCodecFactory(Scheme).WithoutConversion()
	return rest.RESTClientFor(c)
}

func parameterCodec() runtime.ParameterCodec {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	metav1.AddToGroupVersion(s, karpv1.SchemeGroupVersion)
	metav1.AddToGroupVersion(s, bufferv1beta1.SchemeGroupVersion)
	metav1.AddToGroupVersion(s, karpv1alpha1.SchemeGroupVersion)
	metav1.AddToGroupVersion(s, awsv1.SchemeGroupVersion)
	metav1.AddToGroupVersion(s, mwv1alpha1.SchemeGroupVersion)
	return runtime.NewParameterCodec(s)
}
