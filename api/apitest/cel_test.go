package apitest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apimachinery/pkg/util/version"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"

	bufferv1beta1 "millwright/api/autoscaling/v1beta1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
)

// Minor versions of Kubernetes 1 whose API servers must take the CRDs. The live tests run on the last one.
const (
	minorFirst = 30
	minorLast  = 36
)

// TestEveryRuleCompilesWithinBudget compiles each rule of each CRD in the CEL environment of each API server,
// and adds up the costs that server estimates: both its limits, per rule and per CRD, must hold.
func TestEveryRuleCompilesWithinBudget(t *testing.T) {
	for name, crd := range definitions(t) {
		for minor := uint(minorFirst); minor <= minorLast; minor++ {
			t.Run(fmt.Sprintf("%s on 1.%d", name, minor), func(t *testing.T) {
				for _, v := range crd.Spec.Versions {
					r := compile(t, v.Schema.OpenAPIV3Schema, minor)
					least := 8
					if crd.Spec.Group == mwv1alpha1.Group {
						least = 5 // a small kind
					}
					if crd.Spec.Group == bufferv1beta1.Group {
						least = 2 // the shared API has no more
					}
					if r.rules < least {
						t.Errorf("version %s: only %d rules found", v.Name, r.rules)
					}
					for _, problem := range r.problems {
						t.Errorf("version %s: %s", v.Name, problem)
					}
					t.Logf("version %s: %d rules, cost %d of %d, the dearest %d of %d: %s", v.Name, r.rules,
						r.cost, crdvalidation.StaticEstimatedCRDCostLimit, r.dearest, crdvalidation.StaticEstimatedCostLimit, r.dearestAt)
				}
			})
		}
	}
}

// TestTheBudgetIsReal: what API servers refuse, this check refuses.
func TestTheBudgetIsReal(t *testing.T) {
	text := func(maxLength *int64, rule string) *apiextv1.JSONSchemaProps {
		item := apiextv1.JSONSchemaProps{Type: "string", MaxLength: maxLength, XValidations: apiextv1.ValidationRules{{Rule: rule, Message: "m"}}}
		return &apiextv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextv1.JSONSchemaProps{
			"list": {Type: "array", Items: &apiextv1.JSONSchemaPropsOrArray{Schema: &item}},
		}}
	}
	short := int64(10)
	for sentence, c := range map[string]struct {
		schema *apiextv1.JSONSchemaProps
		minor  uint
		want   string
	}{
		"a cheap rule":                      {text(&short, "self != ''"), 30, ""},
		"texts without bound in a list":     {text(nil, "self.matches('^(a|b)*$')"), 36, "exceeds the limit"},
		"a function that came with 1.34":    {text(&short, "semver(self, true).major() >= 0"), 36, ""},
		"the same function on 1.30":         {text(&short, "semver(self, true).major() >= 0"), 30, "undeclared reference"},
		"a rule that is no expression":      {text(&short, "self ==="), 36, "Syntax error"},
		"a rule that is of the wrong types": {text(&short, "self == 1"), 36, "no matching overload"},
	} {
		t.Run(sentence, func(t *testing.T) {
			got := strings.Join(compile(t, c.schema, c.minor).problems, "; ")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("problems %q, want %q", got, c.want)
			}
		})
	}
}

// definitions are all CRDs that are shipped, by file.
func definitions(t *testing.T) map[string]*apiextv1.CustomResourceDefinition {
	t.Helper()
	out := map[string]*apiextv1.CustomResourceDefinition{}
	err := filepath.WalkDir("../../deploy/crds", func(path string, _ os.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".yaml" {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		crd := &apiextv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(data, crd); err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		out[strings.TrimPrefix(path, "../../deploy/crds/")] = crd
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 3 {
		t.Fatalf("found %d CRDs", len(out))
	}
	return out
}

// compiled is what an API server would make of a schema's rules.
type compiled struct {
	rules         int
	cost, dearest uint64
	dearestAt     string
	problems      []string
}

func compile(t *testing.T, schema *apiextv1.JSONSchemaProps, minor uint) compiled {
	t.Helper()
	internal := &apiextensions.JSONSchemaProps{}
	if err := apiextv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(schema, internal, nil); err != nil {
		t.Fatal(err)
	}
	c := &compiler{env: environment.MustBaseEnvSet(version.MajorMinor(1, minor))}
	c.walk(internal, crdvalidation.RootCELContext(internal), "")
	if c.cost > crdvalidation.StaticEstimatedCRDCostLimit {
		c.problem("", "cost %d of all rules exceeds the limit %d", c.cost, crdvalidation.StaticEstimatedCRDCostLimit)
	}
	return c.compiled
}

type compiler struct {
	compiled
	env *environment.EnvSet
}

func (c *compiler) problem(path, format string, args ...any) {
	c.problems = append(c.problems, path+": "+fmt.Sprintf(format, args...))
}

// walk goes down a schema as the API server does when it takes a CRD.
func (c *compiler) walk(s *apiextensions.JSONSchemaProps, at *crdvalidation.CELSchemaContext, path string) {
	c.compile(s, at, path)
	names := make([]string, 0, len(s.Properties))
	for name := range s.Properties {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		child := s.Properties[name]
		c.walk(&child, at.ChildPropertyContext(&child, name), path+"."+name)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		child := s.AdditionalProperties.Schema
		c.walk(child, at.ChildAdditionalPropertiesContext(child), path+".*")
	}
	if s.Items != nil && s.Items.Schema != nil {
		c.walk(s.Items.Schema, at.ChildItemsContext(s.Items.Schema), path+"[]")
	}
}

func (c *compiler) compile(s *apiextensions.JSONSchemaProps, at *crdvalidation.CELSchemaContext, path string) {
	if len(s.XValidations) == 0 {
		return
	}
	info, err := at.TypeInfo()
	if err != nil || info == nil {
		c.problem(path, "no type: %v", err)
		return
	}
	results, err := cel.Compile(info.Schema, info.DeclType, celconfig.PerCallLimit, c.env, cel.NewExpressionsEnvLoader())
	if err != nil {
		c.problem(path, "compile: %v", err)
		return
	}
	for i, r := range results {
		c.rules++
		if r.Error != nil {
			c.problem(path, "rule %q: %s", s.XValidations[i].Rule, r.Error.Detail)
		}
		if r.MessageExpressionError != nil {
			c.problem(path, "message of rule %q: %s", s.XValidations[i].Rule, r.MessageExpressionError.Detail)
		}
		cost := times(r.MaxCost, r.MaxCardinality)
		if at.MaxCardinality != nil {
			cost = times(r.MaxCost, *at.MaxCardinality)
		}
		c.addCost(max(cost, r.MessageExpressionMaxCost), path, s.XValidations[i].Rule)
	}
}

func (c *compiler) addCost(cost uint64, path, rule string) {
	c.cost += min(cost, crdvalidation.StaticEstimatedCRDCostLimit+1) // no overflow, and over the limit all the same
	if cost > c.dearest {
		c.dearest, c.dearestAt = cost, path+": "+rule
	}
	if cost > crdvalidation.StaticEstimatedCostLimit {
		c.problem(path, "cost %d of rule %q exceeds the limit %d", cost, rule, crdvalidation.StaticEstimatedCostLimit)
	}
}

// times multiplies, with the greatest number for an overflow.
func times(a, b uint64) uint64 {
	if a == 0 || b == 0 {
		return 0
	}
	if product := a * b; product/a == b {
		return product
	}
	return ^uint64(0)
}
