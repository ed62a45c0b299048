package main

import apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

// Where the conversion webhook is unless flags of `millwright webhook` name another place; it writes that
// place and the CA into the CRDs itself (reference: api §5, "Served").
const (
	webhookService   = "karpenter"
	webhookNamespace = "kube-system"
	webhookPort      = int32(8443)
)

// addConversion points a CRD with more than one version to the webhook.
func addConversion(crd *apiextv1.CustomResourceDefinition) {
	if len(crd.Spec.Versions) < 2 {
		return
	}
	crd.Spec.Conversion = &apiextv1.CustomResourceConversion{
		Strategy: apiextv1.WebhookConverter,
		Webhook: &apiextv1.WebhookConversion{
			ConversionReviewVersions: []string{"v1beta1", "v1"},
			ClientConfig: &apiextv1.WebhookClientConfig{Service: &apiextv1.ServiceReference{
				Namespace: webhookNamespace, Name: webhookService, Port: ptr(webhookPort), Path: ptr("/conversion/" + crd.Spec.Group),
			}},
		},
	}
}
