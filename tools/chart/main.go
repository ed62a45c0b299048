// Command chart renders a Helm chart with Helm's own library, as `helm template` does, and checks it as `helm
// lint` does. It is a module of its own, so that Millwright does not depend on Helm.
//
// Usage: chart [--name NAME] [--namespace NAMESPACE] [--values FILE]… [--set PATH=VALUE]… [--crds] DIR
//
// The manifests go to standard output, sorted by the name of their template. What lint complains of is an
// error, and so is a key that stands twice in an object.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/cli/values"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/getter"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"sigs.k8s.io/yaml"
)

// kubernetes is the version that charts are rendered for.
const kubernetes = "v1.36.3"

type list []string

func (l *list) String() string     { return strings.Join(*l, ",") }
func (l *list) Set(s string) error { *l = append(*l, s); return nil }

type options struct {
	name, namespace string
	files, sets     list
	crds            bool
}

func main() {
	o := options{}
	flag.StringVar(&o.name, "name", "millwright", "name of the release")
	flag.StringVar(&o.namespace, "namespace", "kube-system", "namespace of the release")
	flag.Var(&o.files, "values", "file of values; may be repeated")
	flag.Var(&o.sets, "set", "PATH=VALUE; may be repeated")
	flag.BoolVar(&o.crds, "crds", false, "print the chart's CRDs too")
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(os.Stdout, flag.Arg(0), o); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, dir string, o options) error {
	given := values.Options{ValueFiles: o.files, Values: o.sets}
	vals, err := given.MergeValues(getter.Providers{})
	if err != nil {
		return fmt.Errorf("read values: %w", err)
	}
	if err := check(dir, vals, o.namespace); err != nil {
		return err
	}
	c, err := loader.LoadDir(dir)
	if err != nil {
		return fmt.Errorf("load %s: %w", dir, err)
	}
	return render(w, c, vals, o)
}

// check fails for whatever `helm lint --strict` complains of, but a missing icon.
func check(dir string, vals map[string]any, namespace string) error {
	version, err := chartutil.ParseKubeVersion(kubernetes)
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range lint.AllWithKubeVersion(dir, vals, namespace, version).Messages {
		if m.Severity > support.InfoSev {
			errs = append(errs, fmt.Errorf("lint %s: %w", m.Path, m.Err))
		}
	}
	return errors.Join(errs...)
}

func render(w io.Writer, c *chart.Chart, vals map[string]any, o options) error {
	capabilities := chartutil.DefaultCapabilities.Copy()
	version, err := chartutil.ParseKubeVersion(kubernetes)
	if err != nil {
		return err
	}
	capabilities.KubeVersion = *version
	release := chartutil.ReleaseOptions{Name: o.name, Namespace: o.namespace, Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(c, vals, release, capabilities)
	if err != nil {
		return fmt.Errorf("check values: %w", err)
	}
	files, err := engine.Render(c, all)
	if err != nil {
		return fmt.Errorf("render: %w", err)
	}
	if o.crds {
		for _, crd := range c.CRDObjects() {
			fmt.Fprintf(w, "---\n%s\n", strings.TrimSpace(strings.TrimPrefix(string(crd.File.Data), "---\n")))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := strict(files[name]); err != nil && !strings.HasSuffix(name, "NOTES.txt") {
			return fmt.Errorf("%s: %w", name, err)
		}
		if text := strings.TrimSpace(files[name]); text != "" && !strings.HasSuffix(name, "NOTES.txt") {
			fmt.Fprintf(w, "---\n%s\n", strings.TrimPrefix(text, "---\n"))
		}
	}
	return nil
}

// strict fails for a key that an object of the manifests has twice, which Helm's lint lets through.
func strict(manifests string) error {
	for doc := range strings.SplitSeq("\n"+manifests, "\n---") {
		if _, err := yaml.YAMLToJSONStrict([]byte(doc)); err != nil {
			return err
		}
	}
	return nil
}
