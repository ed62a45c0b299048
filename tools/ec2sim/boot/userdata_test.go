package boot

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func encode(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// mimeOf wraps parts (content type, body) as launch templates carry them.
func mimeOf(parts ...[2]string) string {
	var b strings.Builder
	b.WriteString("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n")
	for _, p := range parts {
		b.WriteString("--//\nContent-Type: " + p[0] + "\n\n" + p[1] + "\n")
	}
	return b.String() + "--//--\n"
}

const generated = `# Generated NodeConfig
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
metadata: {}
spec:
  cluster:
    apiServerEndpoint: https://10.0.0.1:6443
    certificateAuthority: Q0E=
    cidr: 10.100.0.0/16
    name: demo
  containerd: {}
  instance:
    localStorage: {}
  kubelet:
    config:
      clusterDNS: [10.100.0.10]
      maxPods: 29
      kubeReserved: {cpu: 100m}
      registerWithTaints:
      - {effect: NoExecute, key: karpenter.sh/unregistered}
      - {effect: NoSchedule, key: team, value: a}
    flags:
    - --node-labels="karpenter.sh/nodepool=default,karpenter.sh/capacity-type=spot"
`

var unregistered = corev1.Taint{Key: "karpenter.sh/unregistered", Effect: corev1.TaintEffectNoExecute}

// Compressed user data is read by the agents that decompress it, and by no other.
func TestDecodeCompressed(t *testing.T) {
	packed := func(text string) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	archive := mimeOf([2]string{"application/node.eks.aws", generated})
	want, err := Decode(encode(archive))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Decode(encode(packed(archive))); err != nil || !cmp.Equal(got, want) {
		t.Errorf("%v %v", err, cmp.Diff(want, got))
	}
	for title, data := range map[string]string{
		"TOML":    packed("[settings.kubernetes]\ncluster-name = \"demo\"\n"),
		"a stump": packed(archive)[:40],
		"a bomb":  packed("#!/bin/bash\n" + strings.Repeat("#", decompressedMax)),
	} {
		if b, err := Decode(encode(data)); err == nil {
			t.Errorf("%s: %+v", title, b)
		}
	}
}

func TestDecode(t *testing.T) {
	cases := map[string]struct {
		text string
		want *Bootstrap
	}{
		"Windows: the bootstrap script is called at the end of a PowerShell script": {
			text: "<powershell>\nWrite-Host \"it's $env:NAME; <ready>\" # a comment: '\n[string]$EKSBootstrapScriptFile = \"$env:ProgramFiles\\Amazon\\EKS\\Start-EKSBootstrap.ps1\"\n" +
				"& $EKSBootstrapScriptFile -EKSClusterName 'demo' -APIServerEndpoint 'https://10.0.0.1:6443' -Base64ClusterCA 'Q0E=' " +
				"-KubeletExtraArgs '--node-labels=\"karpenter.sh/nodepool=it''s\" --register-with-taints=\"karpenter.sh/unregistered:NoExecute\" --max-pods=29' -DNSClusterIP '10.100.0.10'\n</powershell>",
			want: &Bootstrap{Family: Windows, ClusterName: "demo", Endpoint: "https://10.0.0.1:6443", CA: "Q0E=", ClusterDNS: []string{"10.100.0.10"},
				Kubelet: Kubelet{Labels: map[string]string{"karpenter.sh/nodepool": "it's"}, MaxPods: 29, Taints: []corev1.Taint{unregistered}}},
		},
		"Windows: the path in full, here-strings, line ends and several statements in a line": {
			text: "<powershell>\r\n<# all of\nthis #>\r\n$ca = 'Q0E='; ${my cluster} = @'\ndemo\n'@\r\n" +
				"& 'C:\\Program Files\\Amazon\\EKS\\Start-EKSBootstrap.ps1' `\r\n -eksClusterName ${my cluster} -APIServerEndpoint https://10.0.0.1:6443 -Base64ClusterCA \"$ca\"\r\n</powershell>",
			want: &Bootstrap{Family: Windows, ClusterName: "demo", Endpoint: "https://10.0.0.1:6443", CA: "Q0E=", Kubelet: Kubelet{Labels: map[string]string{}}},
		},
		"AL2023: a NodeConfig in a MIME archive": {
			text: mimeOf([2]string{"application/node.eks.aws", generated}),
			want: &Bootstrap{Family: AL2023, ClusterName: "demo", Endpoint: "https://10.0.0.1:6443", CA: "Q0E=", ClusterDNS: []string{"10.100.0.10"},
				Kubelet: Kubelet{Labels: map[string]string{"karpenter.sh/nodepool": "default", "karpenter.sh/capacity-type": "spot"}, MaxPods: 29,
					KubeReserved: map[string]string{"cpu": "100m"},
					Taints:       []corev1.Taint{unregistered, {Key: "team", Value: "a", Effect: corev1.TaintEffectNoSchedule}}}},
		},
		"AL2023: the user's part is merged under the generated one, flags are appended": {
			text: mimeOf([2]string{"application/node.eks.aws", `apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  instance: {localStorage: {strategy: RAID0}}
  kubelet:
    config: {maxPods: 5, systemReserved: {memory: 1Gi}}
    flags: ["--node-labels=mine=1"]
`}, [2]string{`text/x-shellscript; charset="us-ascii"`, "#!/bin/bash\necho hi"}, [2]string{"application/node.eks.aws", generated}),
			want: &Bootstrap{Family: AL2023, ClusterName: "demo", Endpoint: "https://10.0.0.1:6443", CA: "Q0E=", ClusterDNS: []string{"10.100.0.10"}, RAID0: true,
				Kubelet: Kubelet{Labels: map[string]string{"mine": "1", "karpenter.sh/nodepool": "default", "karpenter.sh/capacity-type": "spot"}, MaxPods: 29,
					KubeReserved: map[string]string{"cpu": "100m"}, SystemReserved: map[string]string{"memory": "1Gi"},
					Taints: []corev1.Taint{unregistered, {Key: "team", Value: "a", Effect: corev1.TaintEffectNoSchedule}}}},
		},
		"AL2: bootstrap.sh with kubelet arguments": {
			text: mimeOf([2]string{"text/x-shellscript", "#!/bin/bash\necho first"}, [2]string{`text/x-shellscript; charset="us-ascii"`, `#!/bin/bash -xe
exec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1
/etc/eks/bootstrap.sh 'demo' --apiserver-endpoint 'https://10.0.0.1:6443' --b64-cluster-ca 'Q0E=' \
--dns-cluster-ip '10.100.0.10' \
--use-max-pods false \
--kubelet-extra-args '--node-labels="a=b,c=" --register-with-taints="karpenter.sh/unregistered:NoExecute,x=y:NoSchedule" --max-pods=17 --kube-reserved="cpu=50m,memory=1Gi" --eviction-hard="memory.available<5%"' \
--local-disks raid0`}),
			want: &Bootstrap{Family: AL2, ClusterName: "demo", Endpoint: "https://10.0.0.1:6443", CA: "Q0E=", ClusterDNS: []string{"10.100.0.10"}, RAID0: true,
				Kubelet: Kubelet{Labels: map[string]string{"a": "b", "c": ""}, MaxPods: 17, KubeReserved: map[string]string{"cpu": "50m", "memory": "1Gi"},
					EvictionHard: map[string]string{"memory.available": "5%"},
					Taints:       []corev1.Taint{unregistered, {Key: "x", Value: "y", Effect: corev1.TaintEffectNoSchedule}}}},
		},
		"Bottlerocket: TOML settings": {
			text: `[settings.kubernetes]
cluster-name = "demo"
api-server = "https://10.0.0.1:6443"
cluster-certificate = "Q0E="
max-pods = 29
cluster-dns-ip = "10.100.0.10"
[settings.kubernetes.node-labels]
"karpenter.sh/nodepool" = "default"
[settings.kubernetes.node-taints]
"karpenter.sh/unregistered" = [":NoExecute"]
team = ["a:NoSchedule"]
[settings.kubernetes.eviction-hard]
"memory.available" = "200Mi"
`,
			want: &Bootstrap{Family: Bottlerocket, ClusterName: "demo", Endpoint: "https://10.0.0.1:6443", CA: "Q0E=", ClusterDNS: []string{"10.100.0.10"},
				Kubelet: Kubelet{Labels: map[string]string{"karpenter.sh/nodepool": "default"}, MaxPods: 29, EvictionHard: map[string]string{"memory.available": "200Mi"},
					Taints: []corev1.Taint{unregistered, {Key: "team", Value: "a", Effect: corev1.TaintEffectNoSchedule}}}},
		},
	}
	for sentence, c := range cases {
		t.Run(sentence, func(t *testing.T) {
			got, err := Decode(encode(c.text))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	cases := map[string]string{
		"no user data":                        "",
		"a script that bootstraps nothing":    "#!/bin/bash\necho hi",
		"an archive that bootstraps nothing":  mimeOf([2]string{"text/cloud-config", "{}"}),
		"a MIME message that is no archive":   "MIME-Version: 1.0\nContent-Type: text/plain\n\nhello",
		"a NodeConfig without a cluster":      "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {}",
		"a NodeConfig that is not YAML":       mimeOf([2]string{"application/node.eks.aws", "a: [b"}),
		"another kind of document":            "apiVersion: node.eks.aws/v1alpha1\nkind: Other\nspec: {}",
		"TOML without a cluster":              "[settings.kubernetes]\nmax-pods = 3",
		"broken TOML":                         "[settings",
		"Windows":                             "<powershell>hi</powershell>",
		"Windows without an end":              "<powershell>hi",
		"Windows: a string without an end":    "<powershell>\n& 'C:\\Program Files\\Amazon\\EKS\\Start-EKSBootstrap.ps1' -EKSClusterName 'demo\n</powershell>",
		"Windows: another script":             "<powershell>\n& 'C:\\Start-EKSBootstrap.ps1' -EKSClusterName demo -APIServerEndpoint https://a\n</powershell>",
		"Windows: a parameter it lacks":       "<powershell>\n& 'C:\\Program Files\\Amazon\\EKS\\Start-EKSBootstrap.ps1' -EKSClusterName demo -Endpoint https://a\n</powershell>",
		"Windows: commented out":              "<powershell>\n# & 'C:\\Program Files\\Amazon\\EKS\\Start-EKSBootstrap.ps1' -EKSClusterName demo -APIServerEndpoint https://a\n</powershell>",
		"bootstrap.sh without an endpoint":    "#!/bin/bash\n/etc/eks/bootstrap.sh demo",
		"a taint without effect in a flag":    "#!/bin/bash\n/etc/eks/bootstrap.sh demo --apiserver-endpoint x --kubelet-extra-args '--register-with-taints=a'",
		"a bootstrap call that is a comment":  "#!/bin/bash\n# /etc/eks/bootstrap.sh demo --apiserver-endpoint x",
		"a label without value in a flag":     "#!/bin/bash\n/etc/eks/bootstrap.sh demo --apiserver-endpoint x --kubelet-extra-args '--node-labels=a'",
		"a maximum of pods that is no number": "#!/bin/bash\n/etc/eks/bootstrap.sh demo --apiserver-endpoint x --kubelet-extra-args '--max-pods=many'",
	}
	for sentence, text := range cases {
		t.Run(sentence, func(t *testing.T) {
			if b, err := Decode(encode(text)); err == nil {
				t.Errorf("decoded to %+v", b)
			}
		})
	}
	if _, err := Decode("%%%"); err == nil {
		t.Error("decoded what is not base64")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(generated))
	f.Add([]byte(mimeOf([2]string{"application/node.eks.aws", generated})))
	f.Add([]byte("#!/bin/bash\n/etc/eks/bootstrap.sh 'demo' --apiserver-endpoint"))
	f.Add([]byte("[settings.kubernetes]\ncluster-name = 'x'"))
	f.Fuzz(func(t *testing.T, data []byte) {
		Decode(base64.StdEncoding.EncodeToString(data)) // must not panic
	})
}

func TestWordsOfABootstrapCall(t *testing.T) {
	want := &Bootstrap{Family: AL2, ClusterName: "demo", Endpoint: "https://10.0.0.1", CA: "Q0E=",
		Kubelet: Kubelet{Labels: map[string]string{"a": "1", "b": "2"}, EvictionHard: map[string]string{"memory.available": "5%"}}}
	for sentence, call := range map[string]string{
		"quotes": `/etc/eks/bootstrap.sh 'demo' --apiserver-endpoint "https://10.0.0.1" --b64-cluster-ca Q0E\= ` +
			`--kubelet-extra-args '--node-labels="a=1,b=2" --eviction-hard=memory.available<5%'`,
		"continued lines, and a comment": "/etc/eks/bootstrap.sh demo --apiserver-endpoint=https://10.0.0.1 \\\n --b64-cluster-ca Q0E= \\\n" +
			" --kubelet-extra-args '--node-labels=a=1,b=2 --eviction-hard=memory.available<5%' # --dns-cluster-ip 1.2.3.4",
		"within a condition": "if true; then\n  sudo /etc/eks/bootstrap.sh demo --apiserver-endpoint https://10.0.0.1 --b64-cluster-ca Q0E= " +
			"--kubelet-extra-args '--node-labels=a=1,b=2 --eviction-hard=memory.available<5%' >/dev/null\nfi",
	} {
		t.Run(sentence, func(t *testing.T) {
			got, err := Decode(encode("#!/bin/bash\n" + call))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
		})
	}
}

func TestKubeletsRefuseForeignLabels(t *testing.T) {
	cases := map[string]bool{
		"karpenter.sh/nodepool": true, "karpenter.k8s.aws/ec2nodeclass": true, "plain": true, "kubernetes.io/hostname": true,
		"node.kubernetes.io/anything": true, "kubelet.kubernetes.io/x": true,
		"kubernetes.io/role": false, "x.k8s.io/y": false, "node-restriction.kubernetes.io/z": false, "node-role.kubernetes.io/worker": false,
	}
	for key, allowed := range cases {
		k := Kubelet{Labels: map[string]string{key: "v"}}
		if (k.check() == nil) != allowed {
			t.Errorf("%s: allowed is %v", key, !allowed)
		}
	}
	k := Kubelet{Taints: []corev1.Taint{{Key: "a", Effect: "Never"}}}
	if k.check() == nil {
		t.Error("a taint with an unknown effect was let pass")
	}
}
