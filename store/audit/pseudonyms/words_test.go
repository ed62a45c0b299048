package pseudonyms

import (
	"flag"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write public.txt and fields.txt again")

// Sources of the texts that are public, and of the fields.
var (
	ownSources   = []string{"api", "events", "planner", "services/watcher", "services/provisioner", "services/disruptor", "services/terminator", "services/lifecycle", "services/internal", "store/audit"}
	kubePackages = []string{"core/v1", "apps/v1", "policy/v1", "storage/v1", "scheduling/v1"}
)

// TestWords collects the words with -rewrite. Without, it demands what replay cannot do without.
func TestWords(t *testing.T) {
	if *rewrite {
		collectWords(t)
		return
	}
	v := newVocabulary()
	for _, w := range []string{"Drifted", "no-capacity", "NoSchedule", "karpenter.sh/nodepool", "karpenter.k8s.aws/instance-category", "topology.kubernetes.io/zone", "EC2NodeClass"} {
		if !v[w] {
			t.Errorf("%q is not public; go test ./store/audit/pseudonyms -run TestWords -rewrite", w)
		}
	}
}

func collectWords(t *testing.T) {
	c := &wordCollector{words: map[string]bool{}, fields: map[string]bool{}}
	for _, dir := range ownSources {
		c.dir(t, filepath.Join("../../..", dir), false)
	}
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/api", "k8s.io/apimachinery").Output()
	if err != nil {
		t.Fatal(err)
	}
	modules := strings.Fields(string(out))
	for _, p := range kubePackages {
		c.dir(t, filepath.Join(modules[0], p), true)
	}
	c.dir(t, filepath.Join(modules[1], "pkg/apis/meta/v1"), true)
	for name := range strings.FieldsSeq(fleetFields) {
		c.fields[name] = true
	}
	write(t, "public.txt", c.words)
	write(t, "fields.txt", c.fields)
}

func write(t *testing.T, file string, set map[string]bool) {
	if err := os.WriteFile(file, []byte(strings.Join(slices.Sorted(maps.Keys(set)), "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// fleetFields are those of a recorded request of CreateFleet.
const fleetFields = `ClientToken ExcessCapacityTerminationPolicy LaunchTemplateConfigs LaunchTemplateSpecification LaunchTemplateId LaunchTemplateName
	Version Overrides AvailabilityZone AvailabilityZoneId ImageId InstanceType SubnetId MaxPrice Priority WeightedCapacity Placement GroupName GroupId
	PartitionNumber Tenancy OnDemandOptions AllocationStrategy CapacityReservationOptions UsageStrategy MinTargetCapacity SingleAvailabilityZone
	SingleInstanceType MaxTotalPrice SpotOptions InstanceInterruptionBehavior MaintenanceStrategies CapacityRebalance InstancePoolsToUseCount
	TagSpecifications ResourceType Tags Key Value TargetCapacitySpecification TotalTargetCapacity DefaultTargetCapacityType OnDemandTargetCapacity
	SpotTargetCapacity TargetCapacityUnitType TerminateInstancesWithExpiration Type ValidFrom ValidUntil Context DryRun ReplaceUnhealthyInstances
	BlockDeviceMappings InstanceRequirements AvailabilityZoneRelocationStrategy ReservedCapacityOptions`

type wordCollector struct {
	words, fields map[string]bool
	group         string
}

// dir reads the Go files below a folder. Of packages that are not ours only the constants count.
func (c *wordCollector) dir(t *testing.T, dir string, foreign bool) {
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || strings.HasSuffix(d.Name(), "test") || foreign && path != dir || d.Name() == "script" || d.Name() == "pseudonyms"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "generated") || strings.HasPrefix(d.Name(), "zz_"):
			return nil
		}
		f, err := parser.ParseFile(gotoken.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		if c.group = groupOf(filepath.Dir(path)); c.group != "" {
			c.words[c.group] = true
		}
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == gotoken.IMPORT || foreign && (!ok || g.Tok == gotoken.VAR) {
				continue
			}
			ast.Inspect(d, c.visit)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

var groupConstant = regexp.MustCompile(`\bGroup\s*=\s*"([^"]+)"`)

// groupOf is the constant Group of a package.
func groupOf(dir string) string {
	files, _ := filepath.Glob(filepath.Join(dir, "*.go"))
	for _, f := range files {
		src, _ := os.ReadFile(f)
		if m := groupConstant.FindSubmatch(src); m != nil {
			return string(m[1])
		}
	}
	return ""
}

func (c *wordCollector) visit(n ast.Node) bool {
	switch x := n.(type) {
	case *ast.Field:
		if x.Tag != nil {
			tag, _ := strconv.Unquote(x.Tag.Value)
			if name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ","); name != "" && name != "-" {
				c.fields[name] = true
			}
		}
		for _, name := range x.Names {
			if name.IsExported() {
				c.fields[name.Name] = true
			}
		}
		return x.Tag == nil
	case *ast.TypeSpec:
		c.words[x.Name.Name] = true // kinds
	case *ast.BinaryExpr:
		group, isGroup := x.X.(*ast.Ident)
		lit, isLit := x.Y.(*ast.BasicLit)
		if isGroup && isLit && group.Name == "Group" && lit.Kind == gotoken.STRING {
			text, _ := strconv.Unquote(lit.Value)
			c.words[c.group+text] = true
		}
	case *ast.BasicLit:
		if x.Kind == gotoken.STRING {
			text, _ := strconv.Unquote(x.Value)
			for _, w := range token.FindAllString(text, -1) {
				c.words[strings.TrimRight(w, ".:-/")] = true
			}
		}
	}
	return true
}
