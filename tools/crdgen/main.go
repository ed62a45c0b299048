// Command crdgen finishes the CRDs that controller-gen made from api/: it adds the rules that markers on
// foreign or map types cannot express (label keys and values, taints, conditions of NodeClaims, values of
// kubelet maps), and to CRDs of two versions the conversion webhook.
//
// Usage: crdgen DIR. It rewrites the files in DIR; the result depends on nothing else.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: crdgen DIR")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "crdgen:", err)
		os.Exit(1)
	}
}

func run(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) == 0 {
		return errors.Join(fmt.Errorf("find CRDs in %s: none", dir), err)
	}
	for _, file := range files {
		if err := finish(file); err != nil {
			return fmt.Errorf("finish %s: %w", file, err)
		}
	}
	return nil
}

func finish(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	crd := &apiextv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(data, crd); err != nil {
		return err
	}
	for i := range crd.Spec.Versions {
		spec := crd.Spec.Versions[i].Schema.OpenAPIV3Schema
		beta := crd.Spec.Versions[i].Name == "v1beta1"
		switch crd.Spec.Names.Kind {
		case "NodePool":
			err = finishNodePool(spec, beta)
		case "NodeClaim":
			err = finishNodeClaim(spec, beta)
		case "NodeOverlay":
			err = finishNodeOverlay(spec)
		case "EC2NodeClass":
			if !beta {
				err = finishKubelet(spec, "spec")
			}
		}
		if err != nil {
			return err
		}
	}
	addConversion(crd)
	return write(file, crd)
}

// write leaves out the empty status, as controller-gen does.
func write(file string, crd *apiextv1.CustomResourceDefinition) error {
	data, err := yaml.Marshal(crd)
	if err != nil {
		return err
	}
	text := string(data)
	if i := strings.Index(text, "\nstatus:\n"); i >= 0 {
		text = text[:i+1]
	}
	return os.WriteFile(file, []byte("---\n"+text), 0o644)
}
