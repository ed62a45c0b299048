// Command images makes what is published of a build: the image of Millwright for amd64 and arm64 in one
// archive, and bills of materials. It needs no container engine and no registry.
//
//	images archive --out FILE --version V DIR...   DIR holds the programs of an architecture: bin/linux-arm64
//	images sbom --name NAME --version V PROGRAM...
package main

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"millwright/tools/image"
	"millwright/tools/sbom"
)

// programs of the image; the first is its entry point.
var programs = []string{"millwright", "millctl", "healthcheck"}

// roots are the public CAs, on Debian as in most images of it.
const roots = "/etc/ssl/certs/ca-certificates.crt"

func main() {
	root := &cobra.Command{Use: "images", Short: "Make the image of Millwright and bills of materials", SilenceUsage: true}
	root.AddCommand(newArchive(), newSBOM())
	if err := root.Execute(); err != nil {
		os.Exit(1)
	}
}

func newSBOM() *cobra.Command {
	var name, version string
	cmd := &cobra.Command{Use: "sbom PROGRAM...", Short: "Print what programs were built from, in CycloneDX", Args: cobra.MinimumNArgs(1)}
	cmd.Flags().StringVar(&name, "name", "millwright", "what the programs are part of")
	cmd.Flags().StringVar(&version, "version", "dev", "its version")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		data, err := sbom.Write(name, version, args...)
		if err != nil {
			return err
		}
		_, err = cmd.OutOrStdout().Write(data)
		return err
	}
	return cmd
}

func newArchive() *cobra.Command {
	var out, name, version, certificates string
	cmd := &cobra.Command{Use: "archive DIR...", Short: "Write the image for each architecture, linux-ARCH being the name of its directory", Args: cobra.MinimumNArgs(1)}
	cmd.Flags().StringVar(&out, "out", "millwright-image.tar", "the archive, an OCI image layout")
	cmd.Flags().StringVar(&name, "name", "millwright/millwright", "name of the image")
	cmd.Flags().StringVar(&version, "version", "dev", "its tag")
	cmd.Flags().StringVar(&certificates, "ca-certificates", roots, "public CAs that are put into it; empty: none")
	cmd.RunE = func(cmd *cobra.Command, dirs []string) error {
		var images []*image.Image
		for _, dir := range dirs {
			i, err := imageOf(dir, version, certificates)
			if err != nil {
				return err
			}
			images = append(images, i)
		}
		tagged := name + ":" + version
		file, err := os.Create(out)
		if err != nil {
			return err
		}
		digest, err := image.WriteIndex(file, tagged, images)
		if err := errors.Join(err, file.Close()); err != nil {
			return errors.Join(err, os.Remove(out))
		}
		fmt.Fprintf(cmd.OutOrStdout(), "image %s@%s in %s\n", tagged, digest, out)
		return nil
	}
	return cmd
}

// imageOf is the image of the programs of an architecture, with its bill of materials.
func imageOf(dir, version, certificates string) (*image.Image, error) {
	arch, ok := strings.CutPrefix(filepath.Base(dir), "linux-")
	if !ok || arch == "" {
		return nil, fmt.Errorf("%s is not called linux-ARCH", dir)
	}
	i := &image.Image{Architecture: arch, Labels: map[string]string{
		"org.opencontainers.image.title": "millwright", "org.opencontainers.image.version": version, "org.opencontainers.image.licenses": "Apache-2.0",
		"org.opencontainers.image.description": "Nodes for Kubernetes on AWS",
	}}
	var files []string
	for _, p := range programs {
		file := filepath.Join(dir, p)
		if err := builtFor(file, arch); err != nil {
			return nil, err
		}
		files = append(files, file)
		i.Files = append(i.Files, image.File{In: "/" + p, Host: file})
	}
	bill, err := sbom.Write("millwright", version, files...)
	if err != nil {
		return nil, err
	}
	i.Files = append(i.Files, image.File{In: "/etc/sbom/millwright.cdx.json", Data: bill})
	if certificates != "" {
		i.Files = append(i.Files, image.File{In: roots, Host: certificates})
	}
	return i, nil
}

// builtFor refuses a program that nodes of an architecture cannot run.
func builtFor(file, arch string) error {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	for _, s := range info.Settings {
		if want := map[string]string{"GOOS": "linux", "GOARCH": arch}[s.Key]; want != "" && s.Value != want {
			return fmt.Errorf("%s was built with %s=%s, not %s", file, s.Key, s.Value, want)
		}
	}
	return nil
}
