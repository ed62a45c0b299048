package kube

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	bufferv1beta1 "millwright/api/autoscaling/v1beta1"
	karpv1 "millwright/api/karpenter/v1"
	karpv1alpha1 "millwright/api/karpenter/v1alpha1"
	awsv1 "millwright/api/karpenteraws/v1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
)

const contentTypeProtobuf = "application/vnd.kubernetes.protobuf"

// clients by API group. probe asks whether the server is there, on the same connection as the watches.
type clients struct {
	byGroup map[schema.GroupVersion]*rest.RESTClient
	probe   *rest.RESTClient
}

func newClients(config *rest.Config) (clients, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientscheme.AddToScheme, karpv1.AddToScheme, karpv1alpha1.AddToScheme, awsv1.AddToScheme, mwv1alpha1.AddToScheme, bufferv1beta1.AddToScheme} {
		if err := add(scheme); err != nil {
			return clients{}, fmt.Errorf("build scheme: %w", err)
		}
	}
	c := clients{byGroup: map[schema.GroupVersion]*rest.RESTClient{}}
	for _, k := range allKinds() {
		if c.byGroup[k.group] != nil {
			continue
		}
		client, err := newClient(config, scheme, k.group)
		if err != nil {
			return clients{}, fmt.Errorf("build client for %s: %w", k.group, err)
		}
		c.byGroup[k.group] = client
	}
	c.probe = c.byGroup[schema.GroupVersion{Version: "v1"}]
	return c, nil
}

func newClient(config *rest.Config, scheme *runtime.Scheme, gv schema.GroupVersion) (*rest.RESTClient, error) {
	cfg := rest.CopyConfig(config)
	cfg.GroupVersion = &gv
	cfg.APIPath = "/apis"
	if gv.Group == "" {
		cfg.APIPath = "/api"
	}
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	cfg.AcceptContentTypes, cfg.ContentType = "", runtime.ContentTypeJSON
	if gv.Group != karpv1.Group && gv.Group != awsv1.Group { // custom resources have no protobuf
		cfg.AcceptContentTypes, cfg.ContentType = contentTypeProtobuf+","+runtime.ContentTypeJSON, contentTypeProtobuf
	}
	if cfg.UserAgent == "" {
		cfg.UserAgent = "millwright-watcher"
	}
	return rest.RESTClientFor(cfg)
}

func (c clients) lister(k kind) *cache.ListWatch {
	return cache.NewListWatchFromClient(c.byGroup[k.group], k.resource, metav1.NamespaceAll, fields.Everything())
}
