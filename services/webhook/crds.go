package webhook

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright/services/internal/kube"
)

// crdNames are the CRDs that this webhook converts.
var crdNames = []string{"nodepools.karpenter.sh", "nodeclaims.karpenter.sh", "ec2nodeclasses.karpenter.k8s.aws"}

// injector tells the CRDs where the webhook is and which CA to trust.
type injector struct {
	crds apiextclient.CustomResourceDefinitionInterface
	// url is the webhook's base URL, if it is not reached through the Service.
	url                string
	namespace, service string
	port               int32
}

// inject writes into each CRD that serves v1beta1. A CRD that is not installed, or serves v1 alone, is left
// as it is.
func (i *injector) inject(ctx context.Context, bundle []byte) (written []string, err error) {
	var errs []error
	for _, name := range crdNames {
		changed, err := i.injectOne(ctx, name, bundle)
		switch {
		case kube.IsConflict(err): // another replica was first; the next round looks again
		case err != nil:
			errs = append(errs, fmt.Errorf("write conversion of CRD %s: %w", name, err))
		case changed:
			written = append(written, name)
		}
	}
	return written, errors.Join(errs...)
}

func (i *injector) injectOne(ctx context.Context, name string, bundle []byte) (bool, error) {
	crd, err := i.crds.Get(ctx, name, metav1.GetOptions{})
	if kube.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !slices.ContainsFunc(crd.Spec.Versions, func(v apiextv1.CustomResourceDefinitionVersion) bool { return v.Name == "v1beta1" && v.Served }) {
		return false, nil
	}
	want := i.conversion(crd.Spec.Group, bundle)
	if equality.Semantic.DeepEqual(crd.Spec.Conversion, want) {
		return false, nil
	}
	crd.Spec.Conversion = want
	_, err = i.crds.Update(ctx, crd, metav1.UpdateOptions{})
	return err == nil, err
}

func (i *injector) conversion(group string, bundle []byte) *apiextv1.CustomResourceConversion {
	path := "/conversion/" + group
	client := &apiextv1.WebhookClientConfig{CABundle: bundle}
	if i.url != "" {
		url := i.url + path
		client.URL = &url
	} else {
		client.Service = &apiextv1.ServiceReference{Namespace: i.namespace, Name: i.service, Port: &i.port, Path: &path}
	}
	return &apiextv1.CustomResourceConversion{Strategy: apiextv1.WebhookConverter, Webhook: &apiextv1.WebhookConversion{
		ClientConfig: client, ConversionReviewVersions: []string{"v1beta1", "v1"},
	}}
}
