package process

import (
	"os"
	"path/filepath"
	"testing"
)

func TestNamespaceOfTheLease(t *testing.T) {
	pod := filepath.Join(t.TempDir(), "namespace")
	if err := os.WriteFile(pod, []byte("karpenter\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	none := filepath.Join(t.TempDir(), "none")
	for name, c := range map[string]struct{ flag, env, file, want string }{
		"the flag wins":                  {"given", "system", pod, "given"},
		"then karpenter 1.0's variable":  {"", "system", pod, "system"},
		"then the pod's":                 {"", "", pod, "karpenter"},
		"outside a pod karpenter's home": {"", "", none, "kube-system"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Settings{LeaderElectionNamespace: c.flag}
			if got := leaseNamespace(s, c.file, func(string) string { return c.env }); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
