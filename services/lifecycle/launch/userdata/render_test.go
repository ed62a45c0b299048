package userdata

import (
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files")

func ptr[T any](v T) *T { return &v }

// fullInput sets everything a NodeClass can say about the kubelet.
func fullInput(family string) Input {
	return Input{
		Family: family, Cluster: "blue", Endpoint: "https://api.blue.example", CABundle: "Y2EtYnVuZGxl", ClusterCIDR: "10.100.0.0/16",
		Labels: NodeLabels(family, map[string]string{"team": "web", "karpenter.sh/nodepool": "general", "topology.kubernetes.io/zone": "eu-west-1a"}, "spot"),
		Taints: NodeTaints(karpv1.NodeClaimSpec{
			Taints:        []corev1.Taint{{Key: "dedicated", Value: "web", Effect: corev1.TaintEffectNoSchedule}},
			StartupTaints: []corev1.Taint{{Key: "cilium.io/agent-not-ready", Effect: corev1.TaintEffectNoExecute}},
		}),
		Kubelet: awsv1.KubeletConfiguration{
			ClusterDNS: []string{"10.100.0.10"}, MaxPods: ptr[int32](58), PodsPerCore: ptr[int32](10),
			SystemReserved: map[string]string{"memory": "100Mi", "cpu": "100m"}, KubeReserved: map[string]string{"memory": "200Mi", "cpu": "80m"},
			EvictionHard:              map[string]string{"nodefs.available": "10%", "memory.available": "5%"},
			EvictionSoft:              map[string]string{"memory.available": "10%"},
			EvictionSoftGracePeriod:   map[string]metav1.Duration{"memory.available": {Duration: time.Minute}},
			EvictionMaxPodGracePeriod: ptr[int32](60), ImageGCHighThresholdPercent: ptr[int32](85), ImageGCLowThresholdPercent: ptr[int32](80),
			CPUCFSQuota: ptr(false),
		},
	}
}

func plainInput(family string) Input {
	in := fullInput(family)
	in.Kubelet = awsv1.KubeletConfiguration{ClusterDNS: []string{"10.100.0.10"}, MaxPods: ptr[int32](29)}
	return in
}

const userArchive = "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=\"BOUND\"\r\n\r\n--BOUND\r\n" +
	"Content-Type: text/cloud-config\r\nX-Own: kept\r\n\r\n#cloud-config\r\n\r\n--BOUND--\r\n"

const userTOML = `[settings.kernel]
lockdown = "integrity"

[settings.kubernetes]
brand-new-setting = "stays"
max-pods = 5

[settings.kubernetes.node-labels]
mine = "yes"
team = "overwritten"

[settings.kubernetes.node-taints]
gone = ["x:NoSchedule"]

[settings.host-containers.admin]
enabled = true
`

// The rules: userdata §2 to §6.
func TestGolden(t *testing.T) {
	cases := map[string]Input{}
	for _, f := range []string{awsv1.AMIFamilyAL2, awsv1.AMIFamilyAL2023, awsv1.AMIFamilyBottlerocket, awsv1.AMIFamilyWindows2022} {
		cases[f+"-full"], cases[f+"-plain"] = fullInput(f), plainInput(f)
		raid := plainInput(f)
		raid.RAID0, raid.BottlerocketBindsDirs = true, true
		cases[f+"-raid0"] = raid
	}
	with := func(name, family, text string) {
		in := plainInput(family)
		in.UserData = text
		cases[name] = in
	}
	with("AL2-script", awsv1.AMIFamilyAL2, "#!/bin/bash\necho hello\n")
	with("AL2-archive", awsv1.AMIFamilyAL2, userArchive)
	with("AL2023-script", awsv1.AMIFamilyAL2023, "#!/bin/bash\necho hello\n")
	with("AL2023-archive", awsv1.AMIFamilyAL2023, userArchive)
	with("AL2023-nodeconfig", awsv1.AMIFamilyAL2023, "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  kubelet:\n    config:\n      maxPods: 5\n")
	with("Bottlerocket-settings", awsv1.AMIFamilyBottlerocket, userTOML)
	with("Windows2019-script", awsv1.AMIFamilyWindows2019, "Write-Host hello")
	with("Custom", awsv1.AMIFamilyCustom, "anything\r\nat all")
	ipv6 := plainInput(awsv1.AMIFamilyAL2)
	ipv6.Kubelet.ClusterDNS, ipv6.CABundle = []string{"fd00::a"}, ""
	cases["AL2-ipv6"] = ipv6
	for name, in := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Render(in)
			if err != nil {
				t.Fatal(err)
			}
			checkGolden(t, filepath.Join("testdata", name+".golden"), string(got))
		})
	}
}

func checkGolden(t *testing.T, path, got string) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

// The rules: userdata §1.
func TestRefusals(t *testing.T) {
	al2023WithoutCIDR := plainInput(awsv1.AMIFamilyAL2023)
	al2023WithoutCIDR.ClusterCIDR = ""
	badCA := plainInput(awsv1.AMIFamilyAL2023)
	badCA.CABundle = "%%%"
	text := func(family, s string) Input {
		in := plainInput(family)
		in.UserData = s
		return in
	}
	cases := map[string]struct {
		in   Input
		want string
		is   error
	}{
		"AL2 archive that is not multipart":  {text(awsv1.AMIFamilyAL2, "MIME-Version: 1.0\nContent-Type: text/plain\n\nx"), "not in multipart MIME format", ErrInvalid},
		"AL2 archive cut off":                {text(awsv1.AMIFamilyAL2, "Content-Type: multipart/mixed; boundary=\"B\"\n\n--B\nContent-Type: text/plain\n\nhalf"), "read MIME part 1", ErrInvalid},
		"AL2 script with our boundary":       {text(awsv1.AMIFamilyAL2, "#!/bin/bash\n--//--\necho"), "contains the line --//", ErrInvalid},
		"AL2023 without service CIDR":        {al2023WithoutCIDR, "service CIDR is not known", nil},
		"AL2023 with a CA that is no base64": {badCA, "decode CA bundle", nil},
		"Bottlerocket with broken TOML":      {text(awsv1.AMIFamilyBottlerocket, "[settings"), "invalid userData", ErrInvalid},
		"Bottlerocket with odd settings":     {text(awsv1.AMIFamilyBottlerocket, "settings = 3"), "settings is not a table", ErrInvalid},
		"Bottlerocket with odd labels":       {text(awsv1.AMIFamilyBottlerocket, "[settings.kubernetes]\nnode-labels = \"a=b\""), "settings.kubernetes.node-labels is not a table", ErrInvalid},
		"one byte too many":                  {text(awsv1.AMIFamilyCustom, strings.Repeat("x", SizeMax+1)), "16385 bytes", ErrTooLarge},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Render(c.in)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want an error with %q", err, c.want)
			}
			if c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("%v is not %v", err, c.is)
			}
		})
	}
	if _, err := Render(text(awsv1.AMIFamilyCustom, strings.Repeat("x", SizeMax))); err != nil {
		t.Errorf("exactly 16 KiB: %v", err)
	}
}

// A script with one command that has a colon reads as YAML, too; nodeadm would end on it.
func TestAScriptIsNoNodeConfig(t *testing.T) {
	for text, want := range map[string]string{
		"#!/bin/bash\necho hello: world\n":                     shellScript,
		"\n#!/bin/bash\ncurl -H 'X-Own: 1' http://localhost\n": shellScript,
		"# a comment\nkind: NodeConfig\n":                      nodeConfig,
	} {
		parts, err := al2023UserParts(text)
		if err != nil || len(parts) != 1 || parts[0].header.Get("Content-Type") != want || parts[0].body != text {
			t.Errorf("%q: %+v, %v", text, parts, err)
		}
	}
}

// Of a key of 16 KB 64 MB were written.
func TestSettingsAreNotNestedWithoutEnd(t *testing.T) {
	for name, text := range map[string]string{
		"a dotted key": "[settings]\n" + strings.Repeat("a.", 8000) + "a = 1\n",
		"quoted keys":  "[settings]\n" + strings.Repeat("\"a.b\" . 'c'.", 2000) + "a = 1\n",
		"a header":     "[" + strings.Repeat("a.", 8000) + "a]\nb = 1\n",
		"tables":       "[settings]\na = " + strings.Repeat("{a=", 4000) + "1" + strings.Repeat("}", 4000) + "\n",
		"arrays":       "[settings]\na = " + strings.Repeat("[", 8000) + strings.Repeat("]", 8000) + "\n",
	} {
		in := plainInput(awsv1.AMIFamilyBottlerocket)
		in.UserData = text
		if _, err := Render(in); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "nested") {
			t.Errorf("%s: %.100v", name, err)
		}
	}
	in := plainInput(awsv1.AMIFamilyBottlerocket)
	in.UserData = "[settings]\n" + strings.Repeat("a.", 50) + "a = " + strings.Repeat("[", 50) + strings.Repeat("]", 50) + "\nb = [\"[[\", 1.5]\n"
	if _, err := Render(in); err != nil {
		t.Errorf("what anybody may write: %v", err)
	}
}

// What is too large is compressed for the images that decompress it, and refused for the others.
func TestPack(t *testing.T) {
	long := "#!/bin/bash\n" + strings.Repeat("echo the same again\n", 2000)
	noise := make([]byte, 3*SizeMax)
	for i, rng := 0, rand.New(rand.NewPCG(1, 2)); i < len(noise); i++ {
		noise[i] = byte(rng.IntN(256))
	}
	for family, packs := range map[string]bool{
		awsv1.AMIFamilyAL2: true, awsv1.AMIFamilyAL2023: true, awsv1.AMIFamilyBottlerocket: false, awsv1.AMIFamilyCustom: false,
		awsv1.AMIFamilyWindows2019: false, awsv1.AMIFamilyWindows2022: false, awsv1.AMIFamilyWindows2025: false,
	} {
		short := []byte(strings.Repeat("x", SizeMax))
		if got, err := Pack(family, short); err != nil || !bytes.Equal(got, short) {
			t.Errorf("%s: what fits is changed: %v", family, err)
		}
		got, err := Pack(family, []byte(long))
		if !packs {
			if !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), family) {
				t.Errorf("%s: %v", family, err)
			}
			continue
		}
		if err != nil || len(got) > SizeMax {
			t.Fatalf("%s: %d bytes, %v", family, len(got), err)
		}
		if again, _ := Pack(family, []byte(long)); !bytes.Equal(again, got) {
			t.Errorf("%s: equal texts give other bytes", family)
		}
		r, err := gzip.NewReader(bytes.NewReader(got))
		if err != nil {
			t.Fatal(err)
		}
		if back, err := io.ReadAll(r); err != nil || string(back) != long {
			t.Errorf("%s: it does not come back: %v", family, err)
		}
		if _, err := Pack(family, noise); !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "compressed") {
			t.Errorf("%s: noise: %v", family, err)
		}
	}
}

// The rules: userdata §1.
func TestNodeLabels(t *testing.T) {
	claim := map[string]string{
		"team": "web", "example.com/x": "1", "karpenter.sh/nodepool": "p", "kubernetes.io/arch": "amd64",
		"node.kubernetes.io/instance-type": "m5.large", "node-restriction.kubernetes.io/a": "b", "x.k8s.io/y": "z", "notkubernetes.io/k": "v",
	}
	want := map[string]string{
		"team": "web", "example.com/x": "1", "karpenter.sh/nodepool": "p", "notkubernetes.io/k": "v",
		"karpenter.sh/capacity-type": "spot", "karpenter.sh/do-not-sync-taints": "true",
	}
	if d := cmp.Diff(want, NodeLabels("AL2023", claim, "spot")); d != "" {
		t.Error(d)
	}
	if l := NodeLabels("Custom", claim, "spot"); l["karpenter.sh/do-not-sync-taints"] != "" {
		t.Error("Custom must sync taints: nobody knows what its kubelet registers")
	}
}

// The rules: userdata §1.
func TestNodeTaints(t *testing.T) {
	unregistered := karpv1.UnregisteredTaint()
	if got := NodeTaints(karpv1.NodeClaimSpec{StartupTaints: []corev1.Taint{unregistered}}); len(got) != 1 {
		t.Errorf("unregistered taint doubled: %v", got)
	}
	now := metav1.Now()
	spec := karpv1.NodeClaimSpec{Taints: []corev1.Taint{{Key: "a", Effect: "NoSchedule", TimeAdded: &now}}}
	if got := NodeTaints(spec); len(got) != 2 || got[1] != unregistered || got[0].TimeAdded != nil {
		t.Errorf("got %v", got)
	}
	if spec.Taints[0].TimeAdded == nil {
		t.Error("changed its input")
	}
}

// FuzzUserText checks that no text a user can write makes rendering panic, that rendering is deterministic,
// and that our settings are in what comes out.
func FuzzUserText(f *testing.F) {
	for _, s := range []string{"", userArchive, userTOML, "#!/bin/bash\n", "a: b", "Content-Type: multipart/mixed; boundary=x\n\n--x--", "[settings.kubernetes]\nnode-labels={a=1}"} {
		f.Add(s)
	}
	families := []string{awsv1.AMIFamilyAL2, awsv1.AMIFamilyAL2023, awsv1.AMIFamilyBottlerocket, awsv1.AMIFamilyWindows2022}
	f.Fuzz(func(t *testing.T, text string) {
		for _, family := range families {
			in := plainInput(family)
			in.UserData = text
			first, err := Render(in)
			if err != nil {
				continue
			}
			second, _ := Render(in)
			if string(first) != string(second) {
				t.Fatalf("%s: not deterministic", family)
			}
			if !strings.Contains(string(first), karpv1.UnregisteredTaintKey) {
				t.Fatalf("%s: no unregistered taint", family)
			}
			if family == awsv1.AMIFamilyBottlerocket {
				checkOwnSettings(t, string(first))
			}
			if family == awsv1.AMIFamilyAL2 || family == awsv1.AMIFamilyAL2023 {
				if parts, err := parseArchive(string(first)); err != nil || len(parts) == 0 {
					t.Fatalf("%s: result is no archive: %v", family, err)
				}
			}
		}
	})
}

func checkOwnSettings(t *testing.T, text string) {
	t.Helper()
	var got struct {
		Settings struct {
			Kubernetes struct {
				MaxPods int                 `toml:"max-pods"`
				Taints  map[string][]string `toml:"node-taints"`
			}
		}
	}
	if _, err := toml.Decode(text, &got); err != nil {
		t.Fatalf("result is no TOML: %v\n%s", err, text)
	}
	if got.Settings.Kubernetes.MaxPods != 29 || len(got.Settings.Kubernetes.Taints[karpv1.UnregisteredTaintKey]) != 1 {
		t.Fatalf("our settings are missing: %+v", got)
	}
}
