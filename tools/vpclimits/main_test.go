package main

import (
	"strings"
	"testing"
)

func TestTheTableIsReadFromGoSource(t *testing.T) {
	text := `// This file was generated at 2026-01-02T03:04:05Z
package vpc

var Limits = map[string]*VPCLimits{
	"m9x.large": {Interface: 3, IPv4PerInterface: 10, IsTrunkingCompatible: true, BranchInterface: 9, NetworkCards: []NetworkCard{{MaximumNetworkInterfaces: 3}}},
	"m9x.2xlarge": {IPv4PerInterface: 15, IsTrunkingCompatible: false, BranchInterface: 6, Hypervisor: "nitro"},
	"a9.metal": &VPCLimits{IPv4PerInterface: 50, IsTrunkingCompatible: true, BranchInterface: 120},
}
`
	limits, err := parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := write(&out, limits, generatedAt([]byte(text))); err != nil {
		t.Fatal(err)
	}
	_, rows, _ := strings.Cut(out.String(), "do not edit.\n")
	if want := "a9 metal:120:50\nm9x 2xlarge:0:15 large:9:10\n"; rows != want || !strings.Contains(out.String(), "2026-01-02T03:04:05Z") {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	if _, err := parse([]byte("package vpc")); err == nil {
		t.Error("a source without limits is no source")
	}
}
