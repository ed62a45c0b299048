package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"millwright/tools/stack"
)

const (
	// keepVariable makes `demo run` leave everything running until it is interrupted.
	keepVariable = "DEMO_KEEP"
	// visitor is the ServiceAccount that looks at the console, and may approve and stop.
	visitor     = "demo-visitor"
	visitorLife = 24 * time.Hour
)

// consoleHint makes an account for the console of a stack, and says where it is and how to sign in. The token
// is in a file that only its owner can read.
func consoleHint(ctx context.Context, s *stack.Stack, bin string) (string, error) {
	client, err := kubernetes.NewForConfig(s.Config())
	if err != nil {
		return "", fmt.Errorf("make client: %w", err)
	}
	meta := metav1.ObjectMeta{Name: visitor}
	_, err = client.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return "", fmt.Errorf("make account %s: %w", visitor, err)
	}
	_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: meta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "millwright-operator"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: visitor, Namespace: "default"}}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return "", fmt.Errorf("bind account %s: %w", visitor, err)
	}
	seconds := int64(visitorLife / time.Second)
	token, err := client.CoreV1().ServiceAccounts("default").CreateToken(ctx, visitor,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("make token of %s: %w", visitor, err)
	}
	file := filepath.Join(s.Dir(), "console.token")
	if err := os.WriteFile(file, []byte(token.Status.Token+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("write token: %w", err)
	}
	env, err := writeEnvironment(s, bin)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("the console: %s (signed by %s); sign in with the token of: cat %s\nfor kubectl, and kubectl millwright: . %s\n", s.ConsoleURL(), s.ConsoleCA(), file, env), nil
}

// writeEnvironment writes a file that a shell reads to have kubectl and kubectl millwright ask this stack.
func writeEnvironment(s *stack.Stack, bin string) (string, error) {
	program, err := filepath.Abs(filepath.Join(bin, "millctl"))
	if err != nil {
		return "", fmt.Errorf("find millctl: %w", err)
	}
	plugins := filepath.Join(s.Dir(), "plugins")
	if err := os.MkdirAll(plugins, 0o700); err != nil {
		return "", fmt.Errorf("make directory of plugins: %w", err)
	}
	for _, name := range []string{"kubectl-millwright", "kubectl_complete-millwright"} {
		link := filepath.Join(plugins, name)
		if err := os.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", fmt.Errorf("remove %s: %w", link, err)
		}
		if err := os.Symlink(program, link); err != nil {
			return "", fmt.Errorf("install plugin: %w", err)
		}
	}
	file := filepath.Join(s.Dir(), "env")
	text := fmt.Sprintf("export KUBECONFIG='%s'\nexport CONSOLE_URL='%s' CONSOLE_CA_FILE='%s' CONSOLE_SERVICE_ACCOUNT='default/%s'\nexport PATH='%s':\"$PATH\"\n",
		s.Kubeconfig(), s.ConsoleURL(), s.ConsoleCA(), visitor, plugins)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("write %s: %w", file, err)
	}
	return file, nil
}

// keep leaves the stack running with something to look at, until somebody interrupts it.
func (d *demo) keep(ctx context.Context) error {
	if os.Getenv(keepVariable) == "" {
		return nil
	}
	if err := d.scale(ctx, "inflate", 5); err != nil {
		return err
	}
	hint, err := consoleHint(ctx, d.stack, d.bin)
	if err != nil {
		return err
	}
	d.ui.title("Everything goes on until you press Ctrl-C")
	d.ui.block(hint)
	<-ctx.Done()
	return nil
}
