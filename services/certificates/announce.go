package certificates

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright/services/internal/kube"
	"millwright/services/internal/pki"
)

// Annotation on pod templates: a digest of what the pods read only when they start.
const Annotation = "millwright.sh/certificates"

// known is what pods read from their Secrets.
type known struct {
	// trusted are the CAs to be trusted by each server and service, as PEM.
	trusted map[string][]byte
	// nats is its certificate; nil while it is not known.
	nats *pki.Pair
}

// sameForAll: everybody trusts the same CAs.
func (k *Keeper) sameForAll(bundle []byte) known {
	out := known{trusted: map[string][]byte{"etcd": bundle, "nats": bundle}}
	for _, service := range Services {
		out.trusted[service] = bundle
	}
	return out
}

// announce has the pods restarted, one by one, that do not read by themselves what has changed: the CAs to be
// trusted and, of NATS, its own certificate.
func (k *Keeper) announce(ctx context.Context, x known) error {
	apps := k.cfg.Core.AppsV1()
	if k.cfg.EtcdMembers > 0 {
		if err := announceTo(ctx, apps.StatefulSets(k.cfg.Namespace), k.cfg.name("etcd"), digest(x.trusted["etcd"])); err != nil {
			return err
		}
	}
	if k.cfg.NATSMembers > 0 && x.nats != nil {
		if err := announceTo(ctx, apps.StatefulSets(k.cfg.Namespace), k.cfg.name("nats"), digest(x.trusted["nats"], pki.Encode(x.nats.Cert))); err != nil {
			return err
		}
	}
	for _, service := range Services {
		if x.trusted[service] == nil { // it has no Secret yet, so it has read nothing
			continue
		}
		if err := announceTo(ctx, apps.Deployments(k.cfg.Namespace), k.cfg.name(service), digest(x.trusted[service])); err != nil {
			return err
		}
	}
	return nil
}

func digest(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write(p)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// workloads of one kind.
type workloads[T any] interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
	Patch(ctx context.Context, name string, kind types.PatchType, data []byte, opts metav1.PatchOptions, sub ...string) (T, error)
}

// announceTo writes the annotation; a workload that is not there needs none.
func announceTo[T any](ctx context.Context, in workloads[T], name, value string) error {
	o, err := in.Get(ctx, name, metav1.GetOptions{})
	if kube.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("get %s: %w", name, err)
	}
	if templateOf(o).Annotations[Annotation] == value {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{
		"annotations": map[string]string{Annotation: value}}}}})
	if err != nil {
		return fmt.Errorf("make patch of %s: %w", name, err)
	}
	if _, err := in.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "millwright-certificates"}); err != nil {
		return fmt.Errorf("announce certificates to %s: %w", name, err)
	}
	return nil
}

func templateOf(o any) corev1.PodTemplateSpec {
	switch o := o.(type) {
	case *appsv1.StatefulSet:
		return o.Spec.Template
	case *appsv1.Deployment:
		return o.Spec.Template
	}
	return corev1.PodTemplateSpec{}
}
