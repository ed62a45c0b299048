package userdata

import (
	"testing"

	awsv1 "millwright/api/karpenteraws/v1"
)

func TestFamily(t *testing.T) {
	cases := map[string]struct {
		family *string
		alias  string
		want   string
	}{
		"alias decides":                   {nil, "bottlerocket@latest", "Bottlerocket"},
		"alias in capitals":               {nil, "AL2023@v20250101", "AL2023"},
		"amiFamily wins":                  {ptr("Custom"), "al2@latest", "Custom"},
		"neither: AL2":                    {nil, "", "AL2"},
		"a broken alias does not decide":  {nil, "al2023@a@b", "AL2"},
		"an unknown family stays unknown": {ptr("Plan9"), "", "Plan9"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			nc := &awsv1.EC2NodeClass{Spec: awsv1.EC2NodeClassSpec{AMIFamily: c.family, AMISelectorTerms: []awsv1.AMISelectorTerm{{Alias: c.alias}}}}
			if got := awsv1.AMIFamilyOf(nc); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestBindsDirs(t *testing.T) {
	cases := map[string]struct {
		term  awsv1.AMISelectorTerm
		image string
		want  bool
	}{
		"latest is new enough":     {awsv1.AMISelectorTerm{Alias: "bottlerocket@latest"}, "", false},
		"old alias":                {awsv1.AMISelectorTerm{Alias: "bottlerocket@v1.45.9"}, "", true},
		"new alias without v":      {awsv1.AMISelectorTerm{Alias: "bottlerocket@1.46.0"}, "", false},
		"version in the name term": {awsv1.AMISelectorTerm{Name: "bottlerocket-*-v1.50.1-*"}, "bottlerocket-v1.2.3", false},
		"version in the image":     {awsv1.AMISelectorTerm{ID: "ami-1"}, "bottlerocket-aws-k8s-1.31-x86_64-v1.47.0-abc", false},
		"a date in the name term":  {awsv1.AMISelectorTerm{Name: "golden-2026.01.15"}, "golden-2026.01.15", true},
		"a date before a version":  {awsv1.AMISelectorTerm{Name: "golden-2026.01.15-v1.45.0"}, "", true},
		"a date in the image":      {awsv1.AMISelectorTerm{ID: "ami-1"}, "bottlerocket-of-2026.01.15", true},
		"unknown version":          {awsv1.AMISelectorTerm{ID: "ami-1"}, "mine", true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			nc := &awsv1.EC2NodeClass{Spec: awsv1.EC2NodeClassSpec{AMISelectorTerms: []awsv1.AMISelectorTerm{c.term}}}
			if got := BindsDirs(nc, c.image); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
