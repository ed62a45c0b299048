package stack

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"millwright/deploy/manifests"
	"millwright/tools/clustertest"
)

// tokenLife outlives every test.
const tokenLife = 24 * time.Hour

// accountKinds are the kinds in the manifests that give Millwright its rights, and where it says by which
// certificate its console is known.
var accountKinds = []string{"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ConfigMap"}

// consoleTrust is that ConfigMap.
const consoleTrust = manifests.Namespace + "/millwright-console"

// AccountOf is the name of the ServiceAccount that the manifests give to a service, or to `millwright all`.
func AccountOf(command string) string {
	if command == "all" {
		return "millwright"
	}
	return "millwright-" + command
}

// useAccounts makes the ServiceAccounts and roles of the manifests that users install, and a kubeconfig with
// a token for each command: what Millwright may do here is what it may do there.
func (s *Stack) useAccounts(ctx context.Context) error {
	data, commands := manifests.Embedded, []string{"all"}
	if s.opts.FiveProcesses {
		data, commands = manifests.Distributed, s.services()
	}
	objects, err := clustertest.Decode(data)
	if err != nil {
		return err
	}
	applier, err := clustertest.NewApplier(s.Config(), "stack")
	if err != nil {
		return err
	}
	objects = slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool { return !slices.Contains(accountKinds, o.GetKind()) })
	if err := applier.Apply(ctx, objects...); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(s.Config())
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	for _, command := range commands {
		file := s.kubeconfigOf(command)
		if err := s.writeKubeconfig(ctx, client, AccountOf(command), file); err != nil {
			return fmt.Errorf("make kubeconfig of %s: %w", command, err)
		}
		s.kubeconfigs[command] = file
	}
	return nil
}

func (s *Stack) kubeconfigOf(command string) string {
	return filepath.Join(s.opts.Dir, AccountOf(command)+".kubeconfig")
}

func (s *Stack) writeKubeconfig(ctx context.Context, client kubernetes.Interface, account, file string) error {
	seconds := int64(tokenLife / time.Second)
	token, err := client.CoreV1().ServiceAccounts(manifests.Namespace).CreateToken(ctx, account,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	admin, err := clientcmd.LoadFromFile(s.Kubeconfig())
	if err != nil {
		return err
	}
	for _, c := range admin.Contexts {
		c.AuthInfo = account
	}
	admin.AuthInfos = map[string]*clientcmdapi.AuthInfo{account: {Token: token.Status.Token}}
	out, err := clientcmd.Write(*admin)
	if err != nil {
		return err
	}
	return os.WriteFile(file, out, 0o600)
}
