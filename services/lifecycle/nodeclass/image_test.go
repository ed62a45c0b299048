package nodeclass

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/services/internal/ec2"
)

// The rules: ec2 §3.3.
func TestAliasParameters(t *testing.T) {
	eks := "/aws/service/eks/optimized-ami/1.31/"
	cases := map[string]struct {
		family, version string
		want            []string // parameter, then requirement keys with operators
	}{
		"AL2 latest": {"AL2", "latest", []string{
			eks + "amazon-linux-2/recommended/image_id accelerator-count:DoesNotExist gpu-count:DoesNotExist",
			eks + "amazon-linux-2-arm64/recommended/image_id accelerator-count:DoesNotExist gpu-count:DoesNotExist",
			eks + "amazon-linux-2-gpu/recommended/image_id accelerator-count:Exists",
			eks + "amazon-linux-2-gpu/recommended/image_id gpu-count:Exists",
		}},
		"AL2 of a day": {"AL2", "v20250101", []string{
			eks + "amazon-linux-2/amazon-eks-node-1.31-v20250101/image_id accelerator-count:DoesNotExist gpu-count:DoesNotExist",
			eks + "amazon-linux-2-arm64/amazon-eks-arm64-node-1.31-v20250101/image_id accelerator-count:DoesNotExist gpu-count:DoesNotExist",
			eks + "amazon-linux-2-gpu/amazon-eks-gpu-node-1.31-v20250101/image_id accelerator-count:Exists",
			eks + "amazon-linux-2-gpu/amazon-eks-gpu-node-1.31-v20250101/image_id gpu-count:Exists",
		}},
		"AL2023 of a day": {"AL2023", "v20250101", []string{
			eks + "amazon-linux-2023/x86_64/standard/amazon-eks-node-al2023-x86_64-standard-1.31-v20250101/image_id accelerator-count:DoesNotExist gpu-count:DoesNotExist",
			eks + "amazon-linux-2023/arm64/standard/amazon-eks-node-al2023-arm64-standard-1.31-v20250101/image_id accelerator-count:DoesNotExist gpu-count:DoesNotExist",
			eks + "amazon-linux-2023/x86_64/nvidia/amazon-eks-node-al2023-x86_64-nvidia-1.31-v20250101/image_id gpu-count:Exists",
			eks + "amazon-linux-2023/arm64/nvidia/amazon-eks-node-al2023-arm64-nvidia-1.31-v20250101/image_id gpu-count:Exists",
			eks + "amazon-linux-2023/x86_64/neuron/amazon-eks-node-al2023-x86_64-neuron-1.31-v20250101/image_id accelerator-count:Exists",
		}},
		"Bottlerocket of a version": {"Bottlerocket", "v1.20.0", []string{
			"/aws/service/bottlerocket/aws-k8s-1.31/x86_64/1.20.0/image_id accelerator-count:DoesNotExist gpu-count:DoesNotExist",
			"/aws/service/bottlerocket/aws-k8s-1.31/x86_64/1.20.0/image_id accelerator-count:Exists",
			"/aws/service/bottlerocket/aws-k8s-1.31/arm64/1.20.0/image_id accelerator-count:DoesNotExist gpu-count:DoesNotExist",
			"/aws/service/bottlerocket/aws-k8s-1.31-nvidia/x86_64/1.20.0/image_id gpu-count:Exists",
			"/aws/service/bottlerocket/aws-k8s-1.31-nvidia/arm64/1.20.0/image_id gpu-count:Exists",
		}},
		"Windows": {"Windows2022", "latest", []string{
			"/aws/service/ami-windows-latest/Windows_Server-2022-English-Core-EKS_Optimized-1.31/image_id os:In=windows windows-build:In=10.0.20348",
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, v := range aliasVariants(c.family, c.version, "1.31") {
				line := v.parameter
				for _, r := range v.requirements {
					line += " " + strings.TrimPrefix(r.Key[strings.LastIndex(r.Key, "/")+1:], "instance-") + ":" + string(r.Operator)
					if len(r.Values) > 0 {
						line += "=" + strings.Join(r.Values, ",")
					}
				}
				got = append(got, line)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// resolve returns "id arch" of each AMI in order.
func (w *world) resolve(t *testing.T, terms ...awsv1.AMISelectorTerm) []string {
	t.Helper()
	nc := class()
	nc.Spec.AMIFamily, nc.Spec.AMISelectorTerms = ptr("AL2023"), terms
	var out []string
	for _, a := range w.reconcile(t, nc).Object.Status.AMIs {
		text := a.ID
		for _, r := range a.Requirements {
			if r.Key == corev1.LabelArchStable {
				text += " " + r.Values[0]
			}
		}
		if a.Deprecated {
			text += " deprecated"
		}
		out = append(out, text)
	}
	return out
}

// The rules: ec2 §3.3.
func TestNewestImageWins(t *testing.T) {
	w := newWorld(t)
	w.images = []ec2.Image{
		{ID: "ami-1", Name: "mine-1", Architecture: "x86_64", Created: start.Add(-3 * time.Hour)},
		{ID: "ami-2", Name: "mine-2", Architecture: "x86_64", Created: start.Add(-2 * time.Hour)},
		{ID: "ami-3", Name: "mine-3", Architecture: "x86_64", Created: start.Add(-2 * time.Hour)},
		{ID: "ami-4", Name: "mine-4", Architecture: "x86_64", Created: start.Add(-time.Hour), DeprecatedAt: start.Add(-time.Minute)},
		{ID: "ami-5", Name: "mine-5", Architecture: "arm64", Created: start.Add(-9 * time.Hour), DeprecatedAt: start.Add(-time.Hour)},
		{ID: "ami-6", Name: "mine-6", Architecture: "arm64_mac", Created: start},
	}
	if d := cmp.Diff([]string{"ami-3 amd64", "ami-5 arm64 deprecated"}, w.resolve(t, awsv1.AMISelectorTerm{Name: "mine-*"})); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"ami-4 amd64 deprecated"}, w.resolve(t, awsv1.AMISelectorTerm{ID: "ami-4"})); d != "" {
		t.Error("a deprecated image is better than none:", d)
	}
	w.parameters["/mine"], w.parameters["/odd"] = "ami-1", "not an id"
	if d := cmp.Diff([]string{"ami-1 amd64"}, w.resolve(t, awsv1.AMISelectorTerm{SSMParameter: "/mine"}, awsv1.AMISelectorTerm{SSMParameter: "/odd"}, awsv1.AMISelectorTerm{SSMParameter: "/none"})); d != "" {
		t.Error(d)
	}
}

// The rules: ec2 §3.3.
func TestImageQueries(t *testing.T) {
	cases := map[string]struct {
		term awsv1.AMISelectorTerm
		want ec2.ImageQuery
	}{
		"a name has owners":     {awsv1.AMISelectorTerm{Name: "n"}, ec2.ImageQuery{Name: "n", Owners: []string{"self", "amazon"}}},
		"tags alone have none":  {awsv1.AMISelectorTerm{Tags: map[string]string{"a": "b"}}, ec2.ImageQuery{Tags: map[string]string{"a": "b"}}},
		"an owner is respected": {awsv1.AMISelectorTerm{Name: "n", Owner: "123456789012"}, ec2.ImageQuery{Name: "n", Owners: []string{"123456789012"}}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(c.want, imageQuery(c.term)); d != "" {
				t.Error(d)
			}
		})
	}
}

// publishMissing makes the parameters of an alias exist that the world lacks.
func (w *world) publishMissing() {
	for _, v := range al2023Variants(latest, w.version) {
		if _, ok := w.parameters[v.parameter]; !ok {
			w.parameters[v.parameter] = "ami-gpu"
		}
	}
}

// The rules: ec2 §3.3.
func TestDeprecatedParameterIsAskedAgain(t *testing.T) {
	w := newWorld(t)
	w.images[0].DeprecatedAt = start
	w.publishMissing()
	w.reconcile(t, class())
	w.now = w.now.Add(31 * time.Minute)
	w.reconcile(t, class()) // sees the deprecation and forgets the parameter
	asked := w.calls["ssm"]
	w.images = append(w.images, ec2.Image{ID: "ami-new", Name: "new", Architecture: "x86_64", Created: w.now})
	w.parameters[al2023Path+"x86_64/standard/recommended/image_id"] = "ami-new"
	w.now = w.now.Add(2 * time.Minute)
	nc := w.reconcile(t, class()).Object
	if w.calls["ssm"] != asked+1 || nc.Status.AMIs[0].ID != "ami-new" {
		t.Errorf("asked %d times, have %+v", w.calls["ssm"]-asked, nc.Status.AMIs)
	}
}

// An SSM parameter excludes nothing: beside it the alias counts, then the id, and it counts before name and
// tags (api §1.4).
func TestAParameterBesideOtherFieldsIsNoFault(t *testing.T) {
	w := newWorld(t)
	w.parameters["/mine"] = "ami-arm"
	for sentence, c := range map[string]struct {
		term awsv1.AMISelectorTerm
		want []string
	}{
		"an id":         {awsv1.AMISelectorTerm{ID: "ami-x86", SSMParameter: "/mine"}, []string{"ami-x86 amd64"}},
		"name and tags": {awsv1.AMISelectorTerm{SSMParameter: "/mine", Name: "x", Tags: map[string]string{"a": "b"}}, []string{"ami-arm arm64"}},
	} {
		if d := cmp.Diff(c.want, w.resolve(t, c.term)); d != "" {
			t.Errorf("%s: %s", sentence, d)
		}
	}
	nc := class()
	nc.Spec.AMISelectorTerms[0].SSMParameter = "/mine"
	if got := w.reconcile(t, nc).Object; len(got.Status.AMIs) != 3 || Ready(got) != nil {
		t.Errorf("an alias: %v %v", got.Status.AMIs, conditionTexts(got))
	}
}

// A cluster may get a new Kubernetes version before there are images for it: nodes are made of the former
// ones until then.
func TestAnAliasWithoutAnyParameterKeepsTheImages(t *testing.T) {
	w := newWorld(t)
	good := w.reconcile(t, class()).Object
	published := w.parameters
	w.parameters, w.version = map[string]string{}, "1.33"
	w.now = w.now.Add(imagesInterval)
	c, again, err := w.Reconcile(context.Background(), good, nil)
	if err != nil || again > retrySoon || len(c.Object.Status.AMIs) != 3 || Ready(c.Object) != nil {
		t.Errorf("again after %s, %v: %v %v", again, err, c.Object.Status.AMIs, conditionTexts(c.Object))
	}
	if len(c.Events) != 1 || !strings.Contains(c.Events[0].Message, `failed to discover any AMIs for alias "al2023@latest" on Kubernetes 1.33`) {
		t.Errorf("%+v", c.Events)
	}
	edited := good.DeepCopy()
	edited.Generation, edited.Spec.AMISelectorTerms[0].Alias = 2, "al2023@v20990101"
	if got := w.reconcile(t, edited).Object; len(got.Status.AMIs) != 0 || Ready(got) == nil {
		t.Errorf("images of another alias are kept: %v", got.Status.AMIs)
	}
	w.parameters, w.images = published, nil
	w.now = w.now.Add(24 * time.Hour)
	w.version = "1.32"
	if got := w.reconcile(t, good).Object; len(got.Status.AMIs) != 0 || Ready(got) == nil {
		t.Errorf("images that are gone are kept: %v", got.Status.AMIs)
	}
}

// AWS may publish an alias' parameters a little after the class, or a new Kubernetes version, names them.
func TestMissingParameterIsAskedAgainSoon(t *testing.T) {
	w := newWorld(t)
	published := w.parameters
	w.parameters = map[string]string{}
	nc := w.reconcile(t, class()).Object
	asked := w.calls["ssm"]
	w.now = w.now.Add(noParameterTTL / 2)
	if nc = w.reconcile(t, nc).Object; w.calls["ssm"] != asked || len(nc.Status.AMIs) != 0 {
		t.Errorf("asked %d times more at once, have %+v", w.calls["ssm"]-asked, nc.Status.AMIs)
	}
	w.parameters = published
	w.now = w.now.Add(noParameterTTL)
	if nc = w.reconcile(t, nc).Object; len(nc.Status.AMIs) != 3 {
		t.Errorf("after a minute have %+v", nc.Status.AMIs)
	}
	w.parameters[al2023Path+"x86_64/neuron/recommended/image_id"] = "ami-x86"
	w.now = w.now.Add(imagesInterval)
	if nc = w.reconcile(t, nc).Object; len(nc.Status.AMIs) != 4 {
		t.Errorf("a variant that is published late: have %+v", nc.Status.AMIs)
	}
}

func TestSSMErrorKeepsImages(t *testing.T) {
	w := newWorld(t)
	good := w.reconcile(t, class()).Object
	w.now = w.now.Add(25 * time.Hour)
	w.fail["ssm"] = errors.New("throttled")
	c, _, err := w.Reconcile(context.Background(), good, nil)
	if err == nil || len(c.Object.Status.AMIs) != 3 || Ready(c.Object) != nil {
		t.Errorf("%v %v %v", err, c.Object.Status.AMIs, Ready(c.Object))
	}
}

// A name with a wildcard may match hundreds of images that are of no use; more than 25 events of one object
// keep what else there is to say of it from being said.
func TestManyImagesThatCannotBeUsedAreFewEvents(t *testing.T) {
	w := newWorld(t)
	for i := range 300 {
		w.images = append(w.images, ec2.Image{ID: fmt.Sprintf("ami-old%03d", i), Name: "mine-old", Architecture: "i386", Created: start})
	}
	w.images = append(w.images, ec2.Image{ID: "ami-mine", Name: "mine-new", Architecture: "x86_64", Created: start})
	nc := class()
	nc.Spec.AMIFamily, nc.Spec.AMISelectorTerms = ptr(awsv1.AMIFamilyAL2023), []awsv1.AMISelectorTerm{{Name: "mine-*"}}
	c := w.reconcile(t, nc)
	var notes []string
	for _, e := range c.Events {
		if e.Reason == "ResolutionIncomplete" {
			notes = append(notes, e.Message)
		}
	}
	if n := len(notes); n != skippedMax+1 || !strings.Contains(notes[n-1], "skipped 295 more images") {
		t.Errorf("%d events: %s", n, strings.Join(notes[:min(n, 10)], "\n"))
	}
}
