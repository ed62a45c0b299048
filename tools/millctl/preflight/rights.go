package preflight

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"

	"millwright/deploy/manifests"
)

const askRemedy = "Ask as a user who may create SubjectAccessReviews, such as the cluster's admin."

// checkRights asks, before the installation, whether who asks may install; and after, whether each service's
// account may do what the chart's roles grant it.
func checkRights(ctx context.Context, cfg Config, r *report) {
	c := client(cfg, r)
	if c == nil {
		return
	}
	data, err := installed(ctx, c, cfg)
	switch {
	case err != nil:
		r.add(Skipped, "", "Ask as a user who may read ServiceAccounts.", "%v", err)
		return
	case data == nil:
		mayInstall(ctx, c, cfg, r)
		return
	}
	rights, err := granted(data, cfg)
	if err != nil {
		r.add(Failed, "", "", "read the roles of this binary: %v", err)
		return
	}
	console := hasConsole(ctx, c, cfg)
	for _, of := range rights {
		if console || of.withoutConsole(cfg) {
			of.check(ctx, c, r)
		}
	}
}

// hasConsole reports that the console is installed, whose rights there are only then: people have an account
// for it. If that cannot be found out, it counts as installed.
func hasConsole(ctx context.Context, c kubernetes.Interface, cfg Config) bool {
	_, err := c.CoreV1().ServiceAccounts(cfg.Namespace).Get(ctx, cfg.Account+operatorAccount, metav1.GetOptions{})
	return !apierrors.IsNotFound(err)
}

// Accounts of the console's own: that of its pods in mode distributed, and that of people.
const (
	consoleAccount  = "-console"
	operatorAccount = "-operator"
)

// withoutConsole leaves out what the console needs; false if the account is of the console's own.
func (a *accountRights) withoutConsole(cfg Config) bool {
	if a.account == cfg.Account+consoleAccount || a.account == cfg.Account+operatorAccount {
		return false
	}
	a.asked = slices.DeleteFunc(a.asked, func(x authorizationv1.ResourceAttributes) bool {
		return x.Resource == "tokenreviews" || x.Resource == "subjectaccessreviews" || x.Resource == "configmaps"
	})
	return true
}

// installed are the manifests of the mode whose ServiceAccounts there are; nil if there are none.
func installed(ctx context.Context, c kubernetes.Interface, cfg Config) ([]byte, error) {
	for _, mode := range []struct {
		account string
		data    []byte
	}{{cfg.Account + "-watcher", manifests.Distributed}, {cfg.Account, manifests.Embedded}} {
		_, err := c.CoreV1().ServiceAccounts(cfg.Namespace).Get(ctx, mode.account, metav1.GetOptions{})
		if err == nil {
			return mode.data, nil
		}
		if !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("get ServiceAccount %s: %w", mode.account, err)
		}
	}
	return nil, nil
}

// installs are the kinds that installing makes.
var installs = []authorizationv1.ResourceAttributes{
	{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"},
	{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"},
	{Group: "rbac.authorization.k8s.io", Resource: "clusterrolebindings"},
	{Group: "rbac.authorization.k8s.io", Resource: "roles", Namespace: "kube-system"},
	{Group: "apps", Resource: "deployments"}, {Group: "apps", Resource: "statefulsets"}, {Resource: "secrets"}, {Resource: "serviceaccounts"},
}

func mayInstall(ctx context.Context, c kubernetes.Interface, cfg Config, r *report) {
	for _, a := range installs {
		a.Verb = "create"
		clusterWide := slices.Contains([]string{"customresourcedefinitions", "clusterroles", "clusterrolebindings"}, a.Resource)
		if a.Namespace == "" && !clusterWide {
			a.Namespace = cfg.Namespace
		}
		review, err := c.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &a}}, metav1.CreateOptions{})
		if err != nil {
			r.add(Skipped, "", askRemedy, "ask for rights: %v", err)
			return
		}
		if !review.Status.Allowed {
			r.add(Failed, a.Resource, "Install as the cluster's admin.", "Millwright is not installed in %s, and you may not create them", cfg.Namespace)
			return
		}
	}
	r.add(OK, "", "", "Millwright is not installed in %s, and you may install it", cfg.Namespace)
}

// accountRights are what one ServiceAccount may do by the chart.
type accountRights struct {
	account, namespace string
	asked              []authorizationv1.ResourceAttributes
}

// check asks for one right after the other, and names those that are missing.
func (a *accountRights) check(ctx context.Context, c kubernetes.Interface, r *report) {
	object := "ServiceAccount " + a.namespace + "/" + a.account
	var missing []string
	for i := range a.asked {
		review, err := c.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:   "system:serviceaccount:" + a.namespace + ":" + a.account,
			Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + a.namespace, "system:authenticated"}, ResourceAttributes: &a.asked[i],
		}}, metav1.CreateOptions{})
		if err != nil {
			r.add(Skipped, object, askRemedy, "ask for rights: %v", err)
			return
		}
		if !review.Status.Allowed {
			missing = append(missing, textOf(a.asked[i]))
		}
	}
	if more := len(missing) - fieldsNamed; more > 0 {
		missing = append(missing[:fieldsNamed], fmt.Sprintf("%d more", more))
	}
	if len(missing) > 0 {
		r.add(Failed, object, "Upgrade the chart, or restore its roles and bindings: helm upgrade with the same values.", "may not %s", strings.Join(missing, ", "))
		return
	}
	r.add(OK, object, "", "has its %d rights", len(a.asked))
}

func textOf(a authorizationv1.ResourceAttributes) string {
	resource := a.Resource
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	if a.Group != "" {
		resource += "." + a.Group
	}
	return a.Verb + " " + resource
}

// dnsRole is the suffix of the roles that stay in kube-system, wherever the release is.
const dnsRole = "-dns"

// granted reads rights out of roles and bindings, for the accounts and the namespace of the release.
func granted(data []byte, cfg Config) ([]*accountRights, error) {
	rules := map[string][]rbacv1.PolicyRule{}
	var out []*accountRights
	var bindings []rbacv1.RoleBinding
	err := each(data, func(o *unstructured.Unstructured) error {
		switch o.GetKind() {
		case "ClusterRole", "Role":
			role := &rbacv1.Role{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, role); err != nil {
				return err
			}
			rules[o.GetKind()+"/"+role.Name] = role.Rules
		case "ClusterRoleBinding", "RoleBinding":
			b := rbacv1.RoleBinding{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &b); err != nil {
				return err
			}
			bindings = append(bindings, b)
		}
		return nil
	})
	for _, b := range bindings {
		namespace := cfg.Namespace
		switch {
		case b.Namespace == "":
			namespace = ""
		case strings.HasSuffix(b.Name, dnsRole):
			namespace = metav1.NamespaceSystem
		}
		for _, s := range b.Subjects {
			account := cfg.Account + strings.TrimPrefix(s.Name, "millwright")
			i := slices.IndexFunc(out, func(a *accountRights) bool { return a.account == account })
			if i < 0 {
				i, out = len(out), append(out, &accountRights{account: account, namespace: cfg.Namespace})
			}
			for _, rule := range rules[b.RoleRef.Kind+"/"+b.RoleRef.Name] {
				out[i].asked = append(out[i].asked, asked(rule, namespace)...)
			}
		}
	}
	return out, err
}

// asked spells a rule out.
func asked(rule rbacv1.PolicyRule, namespace string) (out []authorizationv1.ResourceAttributes) {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			resource, sub, _ := strings.Cut(resource, "/")
			for _, verb := range rule.Verbs {
				for _, name := range names {
					out = append(out, authorizationv1.ResourceAttributes{Group: group, Resource: resource, Subresource: sub, Verb: verb, Name: name, Namespace: namespace})
				}
			}
		}
	}
	return out
}

// each calls fn for every object of manifests.
func each(data []byte, fn func(*unstructured.Unstructured) error) error {
	dec := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		o := &unstructured.Unstructured{}
		err := dec.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil && len(o.Object) > 0 {
			err = fn(o)
		}
		if err != nil {
			return err
		}
	}
}
