// Package sbom writes the bill of materials of Go programs: what each was built from, as the linker has
// written it into the binary, in CycloneDX. The same binaries give the same bytes: there is no time and no
// serial number in it.
//
// Not guaranteed: anything about code that is not Go. A program that was built with cgo is refused.
package sbom

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
)

// Write the bill of materials of something made of programs, which are files of this machine.
func Write(name, version string, programs ...string) ([]byte, error) {
	if len(programs) == 0 {
		return nil, errors.New("write SBOM: no programs are named")
	}
	root := cyclonedx.Component{BOMRef: name, Type: cyclonedx.ComponentTypeApplication, Name: name, Version: version}
	components := map[string]cyclonedx.Component{}
	dependencies := map[string][]string{}
	for _, file := range programs {
		program, modules, err := read(file)
		if err != nil {
			return nil, fmt.Errorf("write SBOM: %w", err)
		}
		components[program.BOMRef] = program
		dependencies[root.BOMRef] = append(dependencies[root.BOMRef], program.BOMRef)
		for _, m := range modules {
			components[m.BOMRef] = m
			dependencies[program.BOMRef] = append(dependencies[program.BOMRef], m.BOMRef)
		}
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Component: &root}
	var list []cyclonedx.Component
	for _, c := range components {
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b cyclonedx.Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })
	bom.Components = &list
	var on []cyclonedx.Dependency
	for ref, needs := range dependencies {
		slices.Sort(needs)
		needs = slices.Compact(needs)
		on = append(on, cyclonedx.Dependency{Ref: ref, Dependencies: &needs})
	}
	slices.SortFunc(on, func(a, b cyclonedx.Dependency) int { return cmp.Compare(a.Ref, b.Ref) })
	bom.Dependencies = &on
	var out bytes.Buffer
	if err := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return nil, fmt.Errorf("write SBOM: %w", err)
	}
	return out.Bytes(), nil
}

// read a program: itself, by its own digest, and the modules in it, the standard library among them.
func read(file string) (program cyclonedx.Component, modules []cyclonedx.Component, err error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return program, nil, err
	}
	info, err := buildinfo.Read(bytes.NewReader(data))
	if err != nil {
		return program, nil, fmt.Errorf("%s: %w", file, err)
	}
	sum := sha256.Sum256(data)
	name := filepath.Base(file)
	properties := []cyclonedx.Property{{Name: "go:package", Value: info.Path}}
	for _, s := range info.Settings {
		switch s.Key {
		case "CGO_ENABLED":
			if s.Value != "0" {
				return program, nil, fmt.Errorf("%s: it was built with cgo, and may hold code of no module", file)
			}
		case "GOOS", "GOARCH", "-tags", "-ldflags", "-trimpath":
			properties = append(properties, cyclonedx.Property{Name: "go:build:" + s.Key, Value: s.Value})
		}
	}
	program = cyclonedx.Component{BOMRef: "program:" + name, Type: cyclonedx.ComponentTypeApplication, Name: name,
		Hashes: &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}}, Properties: &properties}
	modules = append(modules, module(&debug.Module{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go")}))
	if info.Main.Path != "" {
		modules = append(modules, module(&info.Main))
	}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		modules = append(modules, module(m))
	}
	return program, modules, nil
}

// module is a Go module by its package URL. Its checksum is that of go.sum, which is a hash of hashes and
// none of CycloneDX's kinds.
func module(m *debug.Module) cyclonedx.Component {
	purl := "pkg:golang/" + m.Path
	if m.Version != "" {
		purl += "@" + m.Version
	}
	c := cyclonedx.Component{BOMRef: purl, PackageURL: purl, Type: cyclonedx.ComponentTypeLibrary, Name: m.Path, Version: m.Version}
	if m.Sum != "" {
		c.Properties = &[]cyclonedx.Property{{Name: "go:sum", Value: m.Sum}}
	}
	return c
}
