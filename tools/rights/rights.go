// Package rights compares the rights that the chart's roles give to Millwright's ServiceAccounts with those
// that the end-to-end tests made them use. Each test records what the audit log of its API server says; once
// the whole suite has run, command check fails for a right that nothing used, unless exceptions.txt says why.
package rights

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"millwright/deploy/manifests"
	"millwright/tools/clustertest"
	"millwright/tools/stack"
)

// AccountPrefix is what the names of users that are Millwright's ServiceAccounts begin with.
const AccountPrefix = "system:serviceaccount:" + manifests.Namespace + ":"

// AuditPolicy has an API server record what these accounts request.
const AuditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, userGroups: ["system:serviceaccounts:` + manifests.Namespace + `"]}
- {level: None}
`

// Right of an account to do Verb to Resource, as "pods" or "pods/eviction", of the API group Group.
type Right struct{ Account, Verb, Group, Resource string }

// String is of the form that Parse reads: "millwright-terminator create pods/eviction".
func (r Right) String() string {
	s := r.Account + " " + r.Verb + " " + r.Resource
	if r.Group != "" {
		s += "." + r.Group
	}
	return s
}

// Parse the three words of a Right; a subresource comes before the group: "nodepools/status.karpenter.sh".
func Parse(account, verb, resource string) Right {
	resource, group, _ := strings.Cut(resource, ".")
	return Right{Account: account, Verb: verb, Group: group, Resource: resource}
}

// ParseAudit reads one line of an audit log; ok is false unless it is about a resource and one of
// Millwright's accounts.
func ParseAudit(line []byte) (_ Right, allowed, ok bool) {
	e := struct {
		Verb        string
		User        struct{ Username string }
		ObjectRef   *struct{ Resource, Subresource, APIGroup string }
		Annotations map[string]string
	}{}
	account, ours := "", false
	if err := json.Unmarshal(line, &e); err == nil && e.ObjectRef != nil {
		account, ours = strings.CutPrefix(e.User.Username, AccountPrefix)
	}
	if !ours || !strings.HasPrefix(account, "millwright") {
		return Right{}, false, false
	}
	resource := e.ObjectRef.Resource
	if e.ObjectRef.Subresource != "" {
		resource += "/" + e.ObjectRef.Subresource
	}
	return Right{account, e.Verb, e.ObjectRef.APIGroup, resource}, e.Annotations["authorization.k8s.io/decision"] == "allow", true
}

// OfTheChart are the rights that it gives in modes embedded and distributed, as rendered for users without
// Helm and as the end-to-end tests install them. What it gives only if asked to (surge, the webhook, metrics
// that are secured, its own etcd and NATS) is not among them.
func OfTheChart() ([]Right, error) {
	var all []Right
	for _, data := range [][]byte{manifests.Embedded, manifests.Distributed} {
		rights, err := Granted(data)
		if err != nil {
			return nil, err
		}
		all = append(all, rights...)
	}
	return all, nil
}

// Granted are the rights that roles in manifests give to the ServiceAccounts they are bound to, but for the
// account that people use.
func Granted(data []byte) ([]Right, error) {
	objects, err := clustertest.Decode(data)
	if err != nil {
		return nil, err
	}
	rules := map[string][]rbacv1.PolicyRule{}
	for _, o := range objects {
		if k := o.GetKind(); k == "ClusterRole" || k == "Role" {
			role := struct {
				Rules []rbacv1.PolicyRule `json:"rules"`
			}{}
			if err := into(o, &role); err != nil {
				return nil, err
			}
			rules[k+" "+o.GetName()] = role.Rules
		}
	}
	var all []Right
	for _, o := range objects {
		if k := o.GetKind(); k != "ClusterRoleBinding" && k != "RoleBinding" {
			continue
		}
		binding := struct {
			RoleRef  rbacv1.RoleRef   `json:"roleRef"`
			Subjects []rbacv1.Subject `json:"subjects"`
		}{}
		if err := into(o, &binding); err != nil {
			return nil, err
		}
		for _, subject := range binding.Subjects {
			if subject.Kind == rbacv1.ServiceAccountKind && !strings.HasSuffix(subject.Name, "-operator") {
				all = append(all, ofRules(subject.Name, rules[binding.RoleRef.Kind+" "+binding.RoleRef.Name])...)
			}
		}
	}
	return all, nil
}

func into(o *unstructured.Unstructured, x any) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, x); err != nil {
		return fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return nil
}

func ofRules(account string, rules []rbacv1.PolicyRule) (all []Right) {
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					all = append(all, Right{account, verb, group, resource})
				}
			}
		}
	}
	return all
}

// Used are the rights that tests made accounts use.
type Used map[Right]bool

// has reports whether a right was used. The account of mode embedded has the sum of all roles, so for it the
// use by any service counts. Who may watch may also list: client-go lists if the API server cannot send the
// present state by the watch itself.
func (u Used) has(r Right) bool {
	if u.itself(r) {
		return true
	}
	if r.Verb != "list" {
		return false
	}
	r.Verb = "watch"
	return u.itself(r)
}

func (u Used) itself(r Right) bool {
	if u[r] || r.Account != stack.AccountOf("all") {
		return u[r]
	}
	return slices.ContainsFunc(append(slices.Clone(stack.Services), "console"), func(service string) bool {
		r.Account = stack.AccountOf(service)
		return u[r]
	})
}
