package iam

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// All names the policy of `millwright all`, which does what all services do.
const All = "all"

// Services that a policy can be asked for; those without statements call nothing in AWS.
var Services = []string{"watcher", "provisioner", "disruptor", "terminator", "lifecycle", "console", "export"}

// policiesOf are the policies of the services that call AWS.
var policiesOf = map[string][]string{watcher: {watcher}, lifecycle: {lifecycle, profiles}, All: {watcher, lifecycle, profiles}}

// serviceOf is who has a policy.
func serviceOf(policy string) string {
	switch policy {
	case profiles, archiver, signer:
		return lifecycle
	case archive:
		return lifecycle + ", console, export"
	}
	return policy
}

// archivesOf are the further policies where the archive is a bucket.
var archivesOf = map[string][]string{lifecycle: {archive, archiver}, "console": {archive}, "export": {archive}, All: {archive, archiver}}

// namesOf are the policies of a service, or of All.
func namesOf(service string, a Account) []string {
	names := slices.Clone(policiesOf[service])
	if a.Bucket != "" {
		names = append(names, archivesOf[service]...)
	}
	if a.SigningKey != "" && (service == lifecycle || service == All) {
		names = append(names, signer)
	}
	return names
}

// Has reports whether the policy of a service, or of All, has a statement.
func Has(service string, s Statement) bool { return slices.Contains(policiesOf[service], s.Policy) }

// Account is what the placeholders of statements stand for. Cluster is required; what else is empty gets its
// default where there is one. Account and Partition may be expressions of the tool that reads the policy.
type Account struct {
	Cluster, Region, Partition, Account string
	// NodeRole is the name of the nodes' role, with its path; empty: KarpenterNodeRole-CLUSTER.
	NodeRole string
	// Queue is the name of the interruption queue; empty: the cluster's.
	Queue string
	// SigningKey is the ARN of the KMS key that signs the log, if one does.
	SigningKey string
	// Bucket and Prefix of the archive, if it is in one, and the ARN of the KMS key that its objects are
	// encrypted with, if it is one of the account's.
	Bucket, Prefix, KMSKey string
}

// Partition of a region.
func Partition(region string) string {
	for prefix, partition := range map[string]string{
		"cn-": "aws-cn", "us-gov-": "aws-us-gov", "us-iso-": "aws-iso", "us-isob-": "aws-iso-b", "us-isof-": "aws-iso-f", "eu-isoe-": "aws-iso-e", "eusc-": "aws-eusc",
	} {
		if strings.HasPrefix(region, prefix) {
			return partition
		}
	}
	return "aws"
}

// plain are names that need no escape in a policy, so that none of them can widen one.
var plain = regexp.MustCompile(`^[A-Za-z0-9+=,.@_/-]+$`)

func (a Account) check() error {
	var errs []error
	for _, field := range []struct{ what, value string }{{"cluster", a.Cluster}, {"region", a.Region}, {"node role", a.NodeRole}, {"queue", a.Queue}, {"bucket", a.Bucket + "-"}, {"prefix", a.Prefix + "-"},
		{"partition", a.Partition}, {"account", a.Account + "-"}} {
		if field.value == "" {
			errs = append(errs, fmt.Errorf("the name of the %s is missing", field.what))
		} else if expression := strings.HasPrefix(field.value, "${"); !expression && !plain.MatchString(field.value) {
			errs = append(errs, fmt.Errorf("the %s %q has letters that such names do not have", field.what, field.value))
		}
	}
	for _, key := range []string{a.KMSKey, a.SigningKey} {
		if key != "" && (!strings.HasPrefix(key, "arn:") || strings.ContainsAny(key, "*?$\"")) {
			errs = append(errs, fmt.Errorf("the KMS key %q is no ARN, which a policy needs", key))
		}
	}
	if a.Account == "" {
		errs = append(errs, errors.New("the account's id is missing"))
	}
	return errors.Join(errs...)
}

func (a Account) withDefaults() Account {
	if a.NodeRole == "" && a.Cluster != "" {
		a.NodeRole = "KarpenterNodeRole-" + a.Cluster
	}
	if a.Queue == "" {
		a.Queue = a.Cluster
	}
	if a.Partition == "" {
		a.Partition = Partition(a.Region)
	}
	return a
}

// Document is an IAM policy.
type Document struct {
	Version   string
	Statement []Allowed
}

// Allowed is a statement of a Document.
type Allowed struct {
	Sid, Effect      string
	Action, Resource []string
	// Condition holds values by operator and key.
	Condition map[string]map[string][]string `json:",omitempty"`
}

// Policy of a service, or of All. One without statements allows nothing.
func Policy(service string, a Account) (Document, error) {
	if service != All && !slices.Contains(Services, service) {
		return Document{}, fmt.Errorf("no service is named %q: want %s or %s", service, strings.Join(Services, ", "), All)
	}
	return policy(namesOf(service, a), a)
}

// policy joins the statements of some policies.
func policy(names []string, a Account) (Document, error) {
	a = a.withDefaults()
	if err := a.check(); err != nil {
		return Document{}, err
	}
	fill := strings.NewReplacer("{partition}", a.Partition, "{region}", a.Region, "{account}", a.Account, "{cluster}", a.Cluster,
		"{queue}", a.Queue, "{bucket}", a.Bucket, "{prefix}", a.Prefix, "{key}", a.KMSKey, "{signingKey}", a.SigningKey, "{role}", strings.TrimPrefix(a.NodeRole, "/"))
	d := Document{Version: "2012-10-17", Statement: []Allowed{}}
	for _, s := range slices.Concat(Statements, ArchiveStatements, SigningStatements) {
		if slices.Contains(names, s.Policy) && (a.KMSKey != "" || !s.ofKey()) {
			d.Statement = append(d.Statement, s.filled(fill))
		}
	}
	return d, nil
}

// ofKey: it is about the KMS key of the archive.
func (s Statement) ofKey() bool { return slices.Contains(s.Resources, keyARN) }

func (s Statement) filled(fill *strings.Replacer) Allowed {
	out := Allowed{Sid: s.Sid, Effect: "Allow", Action: s.Actions}
	for _, r := range s.Resources {
		out.Resource = append(out.Resource, fill.Replace(r))
	}
	for _, c := range s.Conditions {
		if out.Condition == nil {
			out.Condition = map[string]map[string][]string{}
		}
		if out.Condition[c.Operator] == nil {
			out.Condition[c.Operator] = map[string][]string{}
		}
		values := make([]string, len(c.Values))
		for i, v := range c.Values {
			values[i] = fill.Replace(v)
		}
		out.Condition[c.Operator][fill.Replace(c.Key)] = values
	}
	return out
}

// JSON is the document, indented.
func (d Document) JSON() ([]byte, error) { return encode(d, "  ") }

// encode leaves < and > as they are, which IAM would count as six letters each.
func encode(v any, indent string) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	err := e.Encode(v)
	return b.Bytes(), err
}
