package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"millwright/tools/clustertest"
)

// tested are the images of others that the chart and the compose stack name, by repository: the Go module of
// the same program that the tests run, the directory of the module that requires it, and how the image's tag
// is made of the module's version.
var tested = map[string]struct {
	module, directory string
	tag               func(version string) string
}{
	"gcr.io/etcd-development/etcd": {"go.etcd.io/etcd/server/v3", "", strings.Clone},
	"quay.io/coreos/etcd":          {"go.etcd.io/etcd/server/v3", "", strings.Clone},
	"nats":                         {"github.com/nats-io/nats-server/v2", "", func(v string) string { return strings.TrimPrefix(v, "v") + "-alpine" }},
	"prom/prometheus":              {"github.com/prometheus/prometheus", "tools/gen/prometheus", prometheusRelease},
}

// untested are images whose programs are no Go module of ours, each with the reason.
var untested = map[string]string{
	"grafana/grafana": "it only shows the dashboards, and is left out where no registry can be reached",
}

// prometheusRelease is the release that a version of Prometheus' module belongs to: v0.305.1 is v3.5.1.
func prometheusRelease(version string) string {
	return regexp.MustCompile(`^v0\.3(\d\d)\.`).ReplaceAllStringFunc(version, func(s string) string {
		return "v3." + strings.TrimPrefix(s[len("v0.3"):len(s)-1], "0") + "."
	})
}

// TestImagesAreOfTheVersionsThatAreTested: etcd, NATS and Prometheus are tested as the Go modules that are
// built here; the images that the chart and the compose stack name are of the same versions.
func TestImagesAreOfTheVersionsThatAreTested(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for file, images := range map[string][]string{"values.yaml": chartImages(t), "docker-compose.yaml": composeImages(t)} {
		for _, image := range images {
			repository, tag, _ := strings.Cut(image, ":")
			if untested[repository] != "" || strings.HasPrefix(repository, "millwright/") {
				continue
			}
			of, known := tested[repository]
			if !known {
				t.Errorf("%s names %s, of which no version is tested", file, image)
				continue
			}
			seen[repository] = true
			if want := of.tag(moduleVersion(t, of.directory, of.module)); tag != want {
				t.Errorf("%s names %s, but %s is tested", file, image, want)
			}
		}
	}
	for repository := range tested {
		if !seen[repository] {
			t.Errorf("%s is named nowhere: take it off the list", repository)
		}
	}
	page := string(readFile(t, "docs/compatibility.md"))
	for repository, of := range tested {
		version := strings.TrimPrefix(of.tag(moduleVersion(t, of.directory, of.module)), "v")
		if version = strings.TrimSuffix(version, "-alpine"); !strings.Contains(page, version) {
			t.Errorf("docs/compatibility.md does not name %s of %s", version, repository)
		}
	}
	page = string(readFile(t, "deploy/charts/millwright/README.md"))
	for _, image := range chartImages(t) {
		if !strings.Contains(page, image+" ") {
			t.Errorf("the chart's README.md does not say how to pin %s", image)
		}
	}
}

// chartImages are the images of the servers that the chart brings.
func chartImages(t *testing.T) (images []string) {
	t.Helper()
	type server struct {
		Image struct{ Repository, Tag string }
	}
	var values struct{ Etcd, NATS server }
	if err := yaml.Unmarshal(readFile(t, "deploy/charts/millwright/values.yaml"), &values); err != nil {
		t.Fatal(err)
	}
	for _, s := range []server{values.Etcd, values.NATS} {
		images = append(images, s.Image.Repository+":"+s.Image.Tag)
	}
	return images
}

// composeImages are the images of all containers of the compose stack.
func composeImages(t *testing.T) (images []string) {
	t.Helper()
	var stack struct {
		Services map[string]struct{ Image string }
	}
	if err := yaml.Unmarshal(readFile(t, "docker-compose.yaml"), &stack); err != nil {
		t.Fatal(err)
	}
	for _, s := range stack.Services {
		images = append(images, s.Image)
	}
	return images
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(clustertest.Root(), name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// moduleVersion is the version of a module that the go.mod in a directory requires.
func moduleVersion(t *testing.T, directory, module string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Version}}", module)
	cmd.Dir = filepath.Join(clustertest.Root(), directory)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("find the version of %s: %v", module, err)
	}
	return strings.TrimSpace(string(out))
}
