package e2e

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"millwright/tools/clustertest"
)

// renderedPods are the pod templates that the chart renders, by the component of their labels.
func renderedPods(t *testing.T, values string) map[string]corev1.PodTemplateSpec {
	t.Helper()
	rendered, err := chart(t, "millwright", values, "--set", "settings.clusterName=demo")
	if err != nil {
		t.Fatal(err)
	}
	objects, err := clustertest.Decode(rendered)
	if err != nil {
		t.Fatal(err)
	}
	pods := map[string]corev1.PodTemplateSpec{}
	for _, o := range objects {
		if o.GetKind() != "Deployment" && o.GetKind() != "StatefulSet" {
			continue
		}
		var d appsv1.Deployment
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &d); err != nil {
			t.Fatal(err)
		}
		pods[d.Spec.Template.Labels["app.kubernetes.io/component"]] = d.Spec.Template
	}
	return pods
}

// variableOf is a variable of a container's environment, and the Secret and key it is from if it is; false if it is not there.
func variableOf(c corev1.Container, name string) (string, bool) {
	i := slices.IndexFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == name })
	if i < 0 {
		return "", false
	}
	if from := c.Env[i].ValueFrom; from != nil && from.SecretKeyRef != nil {
		return from.SecretKeyRef.Name + "/" + from.SecretKeyRef.Key, true
	}
	return c.Env[i].Value, true
}

// TestChartTakesNATSUsersFromSecrets: with a NATS as docs/external.md sets it up, the watcher has its own URL, with its user and password,
// all others the readers', and each proves itself by the client certificate; without users in Secrets all have the URL of the values.
func TestChartTakesNATSUsersFromSecrets(t *testing.T) {
	t.Parallel()
	const base = `
mode: distributed
export: {url: "https://events.example.com"}
etcd: {endpoints: ["https://etcd:2379"], tlsSecretName: servers}
`
	for values, want := range map[string]struct{ watcher, reader, certificate string }{
		"nats: {writerURLSecretName: writer, readerURLSecretName: reader, tlsSecretName: servers}\n": {"writer/url", "reader/url", "/etc/millwright/nats/tls.crt"},
		"nats: {url: 'tls://nats:4222', writerURLSecretName: writer, tlsSecretName: servers}\n":      {"writer/url", "tls://nats:4222", "/etc/millwright/nats/tls.crt"},
		"nats: {url: 'tls://nats:4222', readerCredentialsSecretName: jwt, tlsSecretName: servers}\n": {"tls://nats:4222", "tls://nats:4222", "/etc/millwright/nats/tls.crt"},
		"nats: {url: 'tls://nats:4222', tlsSecretName: servers, clientCertificate: false}\n":         {"tls://nats:4222", "tls://nats:4222", ""},
	} {
		pods := renderedPods(t, base+values)
		if _, ok := pods["nats"]; ok {
			t.Errorf("%s: the chart brings a NATS of its own", values)
		}
		for _, service := range []string{"watcher", "provisioner", "disruptor", "terminator", "lifecycle", "console"} {
			c := pods[service].Spec.Containers[0]
			url := want.reader
			if service == "watcher" {
				url = want.watcher
			}
			if got, _ := variableOf(c, "NATS_URL"); got != url {
				t.Errorf("%s: NATS_URL of %s is %q, want %q", values, service, got, url)
			}
			key := strings.Replace(want.certificate, "crt", "key", 1)
			for name, file := range map[string]string{"NATS_CA_FILE": "/etc/millwright/nats/ca.crt", "NATS_CERT_FILE": want.certificate, "NATS_KEY_FILE": key} {
				if got, _ := variableOf(c, name); got != file {
					t.Errorf("%s: %s of %s is %q, want %q", values, name, service, got, file)
				}
			}
		}
		if got, ok := variableOf(pods["export"].Spec.Containers[0], "NATS_URL"); ok {
			t.Errorf("%s: the export, which asks no NATS, has its URL %q", values, got)
		}
	}
	if _, err := chart(t, "millwright", base+"nats: {readerURLSecretName: reader}\n", "--set", "settings.clusterName=demo"); err == nil ||
		!strings.Contains(err.Error(), "nats.writerURLSecretName") {
		t.Errorf("a NATS for readers alone: error %v", err)
	}
}
