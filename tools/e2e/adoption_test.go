package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"millwright/tools/stack"
)

func credentials(context.Context) (aws.Credentials, error) {
	return aws.Credentials{AccessKeyID: "local", SecretAccessKey: "local"}, nil
}

// TestAdoptionFromKarpenterAndHandingBack plays the whole migration: while Karpenter leads, Millwright waits;
// when Karpenter is gone, Millwright adopts what three of its releases left behind, without drift, launches
// or losses; when Millwright is gone, Karpenter finds its objects as it needs them.
func TestAdoptionFromKarpenterAndHandingBack(t *testing.T) {
	e := start(t, func(o *stack.Options) { o.Bare = true })
	k := newKarpenter(e)
	k.lead("karpenter-5d8f7_1")
	left := map[string]string{} // provider ids by claim
	for _, r := range releases {
		k.pool(r)
		_, left[r.pool+"-ready"] = k.launch(r, r.pool+"-ready")
		k.claim(r, r.pool+"-ready", left[r.pool+"-ready"])
		k.register(r, r.pool+"-ready", left[r.pool+"-ready"])
		_, left[r.pool+"-booting"] = k.launch(r, r.pool+"-booting")
		k.claim(r, r.pool+"-booting", left[r.pool+"-booting"])
		_, left[r.pool+"-lost"] = k.launch(r, r.pool+"-lost") // launched, and Karpenter died before it wrote it down
		k.claim(r, r.pool+"-lost", "")
		k.claim(r, r.pool+"-none", "")
		e.deploy(r.pool, 1, "500m", "100Mi", func(p *corev1.PodTemplateSpec) {
			p.Spec.NodeSelector = map[string]string{"karpenter.sh/nodepool": r.pool}
		})
		e.running(r.pool, 1)
	}
	before := e.metadataOf()

	p, err := e.stack.StartMillwright()
	if err != nil {
		t.Fatal(err)
	}
	e.eventually("Millwright sees who leads", func() string {
		if text := e.stack.Readiness(t.Context(), "millwright"); !strings.Contains(text, `held by "karpenter-5d8f7_1"`) {
			return text
		}
		return ""
	})
	e.hasEvent("Lease", leaseName, "karpenter-5d8f7_1")
	if after := e.metadataOf(); !slices.Equal(before, after) {
		t.Fatalf("changed beside Karpenter:\n%v\n%v", before, after)
	}

	k.lead("") // Karpenter's last replica stops
	if err := e.stack.AwaitReady(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if got := k.leader(); !strings.HasPrefix(got, "millwright/") {
		t.Errorf("lease held by %q", got)
	}
	for _, r := range releases {
		e.adopted(r, left)
	}
	e.launchedNothing()

	// Labels and finalizers work: a claim Karpenter made is deleted, and its pod moves.
	victim := releases[0].pool + "-ready"
	if err := e.dyn.Resource(claimsGVR).Delete(t.Context(), victim, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	e.eventually(victim+" is gone with its instance", func() string {
		for _, i := range e.liveInstances() {
			if strings.HasSuffix(left[victim], i.ID) {
				return "instance " + i.ID + " lives"
			}
		}
		if slices.ContainsFunc(e.nodeClaims(), func(c unstructured.Unstructured) bool { return c.GetName() == victim }) {
			return "the nodeclaim is there"
		}
		return ""
	})
	e.running(releases[0].pool, 1)
	e.sound()

	// Back again.
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	if got := k.leader(); got != "" {
		t.Errorf("after the stop the lease is held by %q", got)
	}
	k.lead("karpenter-9c1d2_7")
	e.handedBack()
	if err := p.Restart(); err != nil {
		t.Fatal(err)
	}
	e.eventually("Millwright stays out", func() string {
		if text := e.stack.Readiness(t.Context(), "millwright"); !strings.Contains(text, `held by "karpenter-9c1d2_7"`) {
			return text
		}
		return ""
	})
}

// metadataOf returns names and versions of all NodeClaims, NodePools and EC2NodeClasses.
func (e *env) metadataOf() (out []string) {
	e.Helper()
	for _, gvr := range []struct {
		list func() (*unstructured.UnstructuredList, error)
	}{
		{func() (*unstructured.UnstructuredList, error) {
			return e.dyn.Resource(nodePools).List(e.Context(), metav1.ListOptions{})
		}},
		{func() (*unstructured.UnstructuredList, error) {
			return e.dyn.Resource(nodeClasses).List(e.Context(), metav1.ListOptions{})
		}},
		{func() (*unstructured.UnstructuredList, error) {
			return e.dyn.Resource(claimsGVR).List(e.Context(), metav1.ListOptions{})
		}},
	} {
		list, err := gvr.list()
		if err != nil {
			e.Fatal(err)
		}
		for _, o := range list.Items {
			out = append(out, fmt.Sprintf("%s %s at %s", o.GetKind(), o.GetName(), o.GetResourceVersion()))
		}
	}
	return out
}

// adopted waits until everything that a release left behind is as it should be under Millwright.
func (e *env) adopted(r release, left map[string]string) {
	e.Helper()
	for _, name := range []string{r.pool + "-ready", r.pool + "-booting", r.pool + "-lost"} {
		e.eventually(name+" is adopted", func() string {
			o, err := e.dyn.Resource(claimsGVR).Get(e.Context(), name, metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			return e.looksAdopted(r, o, left[name])
		})
	}
	e.eventually(r.pool+"-none is deleted", func() string {
		if _, err := e.dyn.Resource(claimsGVR).Get(e.Context(), r.pool+"-none", metav1.GetOptions{}); err == nil {
			return "it is there"
		}
		return ""
	})
}

func (e *env) looksAdopted(r release, o *unstructured.Unstructured, providerID string) string {
	e.Helper()
	if got, _, _ := unstructured.NestedString(o.Object, "status", "providerID"); got != providerID {
		return fmt.Sprintf("provider id %q, want %q", got, providerID)
	}
	if status, reason, message := condition(o, "Ready"); status != "True" {
		return fmt.Sprintf("Ready is %s, %s, %s", status, reason, message)
	}
	if status, _, _ := condition(o, "Drifted"); status == "True" || o.GetDeletionTimestamp() != nil {
		return "it goes"
	}
	if o.GetLabels()["karpenter.k8s.aws/ec2nodeclass"] != r.pool || !slices.Equal(o.GetFinalizers(), []string{"karpenter.sh/termination"}) {
		return fmt.Sprintf("labels %v, finalizers %v", o.GetLabels(), o.GetFinalizers())
	}
	return e.inSync(r, o)
}

// inSync checks that the hashes on the claim are those of its NodePool and EC2NodeClass, all in one version:
// the version they had before, if its algorithm is known.
func (e *env) inSync(r release, o *unstructured.Unstructured) string {
	pool, err := e.dyn.Resource(nodePools).Get(e.Context(), r.pool, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	class, err := e.dyn.Resource(nodeClasses).Get(e.Context(), r.pool, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	for key, owner := range map[string]*unstructured.Unstructured{
		"karpenter.sh/nodepool-hash": pool, "karpenter.sh/nodepool-hash-version": pool,
		"karpenter.k8s.aws/ec2nodeclass-hash": class, "karpenter.k8s.aws/ec2nodeclass-hash-version": class,
	} {
		if have, want := o.GetAnnotations()[key], owner.GetAnnotations()[key]; have != want || have == "" {
			return fmt.Sprintf("%s is %q, its owner's %q", key, have, want)
		}
	}
	k := &karpenter{env: e}
	ofPool, ofClass := k.hashes(r)
	if r.classHash == "v3" { // of 1.0; a release that cannot be computed gets the newest
		_, ofClass = k.hashes(release{pool: r.pool, classHash: "v5"})
	}
	maps.Copy(ofPool, ofClass)
	for key, want := range ofPool {
		if have := o.GetAnnotations()[key]; have != want {
			return fmt.Sprintf("%s is %q, Karpenter's %q", key, have, want)
		}
	}
	return ""
}

// launchedNothing checks that all instances are still Karpenter's.
func (e *env) launchedNothing() {
	e.Helper()
	entries, err := e.ec2.Ledger(e.Context(), 0)
	if err != nil {
		e.Fatal(err)
	}
	for _, entry := range entries {
		if entry.Call == "CreateFleet" || entry.Outcome == "terminated" {
			e.Errorf("%s: %s %v", entry.Call, entry.Outcome, entry.Instances)
		}
	}
}

// handedBack checks that Karpenter finds claims and Nodes as it needs them, and nothing of ours that would
// block their deletion.
func (e *env) handedBack() {
	e.Helper()
	for _, o := range e.nodeClaims() {
		if !slices.Equal(o.GetFinalizers(), []string{"karpenter.sh/termination"}) || o.GetLabels()["karpenter.sh/nodepool"] == "" {
			e.Errorf("nodeclaim %s: finalizers %v, labels %v", o.GetName(), o.GetFinalizers(), o.GetLabels())
		}
		if _, reason, _ := condition(&o, "Drifted"); reason != "" {
			e.Errorf("nodeclaim %s has drifted: %s", o.GetName(), reason)
		}
		for _, key := range []string{"karpenter.sh/nodepool-hash", "karpenter.sh/nodepool-hash-version", "karpenter.k8s.aws/ec2nodeclass-hash",
			"karpenter.k8s.aws/ec2nodeclass-hash-version"} {
			if o.GetAnnotations()[key] == "" {
				e.Errorf("nodeclaim %s lacks %s", o.GetName(), key)
			}
		}
	}
	for _, n := range e.nodes() {
		if !slices.Equal(n.Finalizers, []string{"karpenter.sh/termination"}) || n.Labels["karpenter.sh/registered"] != "true" ||
			n.Labels["karpenter.sh/initialized"] != "true" || len(n.Spec.Taints) != 0 {
			e.Errorf("node %s: finalizers %v, labels %v, taints %v", n.Name, n.Finalizers, n.Labels, n.Spec.Taints)
		}
	}
}

// TestALostLog: in a cluster whose nodes were made under another log, Millwright starts with an empty log
// only if the flag that allows it is set, and then launches nothing twice.
func TestALostLog(t *testing.T) {
	e := start(t, nil)
	e.apply(defaultClass)
	e.apply(defaultPool)
	e.deploy("web", 2, "1", "1Gi")
	e.running("web", 2)
	e.matched()
	before := e.liveInstances()
	p := e.stack.Process("millwright")
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(e.stack.MillwrightDir(), "etcd")); err != nil {
		t.Fatal(err)
	}
	if err := p.Restart(); err != nil {
		t.Fatal(err)
	}
	<-p.Ended()
	log, err := os.ReadFile(p.Log())
	if err != nil {
		t.Fatal(err)
	}
	text := string(log)
	for _, want := range []string{"nodeclaims of another event log", e.nodeClaims()[0].GetName(), "--adopt"} {
		if !strings.Contains(text, want) {
			t.Errorf("the error does not say %q:\n%s", want, text)
		}
	}
	p.With("--adopt")
	if err := p.Restart(); err != nil {
		t.Fatal(err)
	}
	if err := e.stack.AwaitReady(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	e.eventually("all is adopted", func() string {
		out, _ := e.millctl("log")
		if n := strings.Count(out, " is ready for pods"); n != len(e.nodeClaims()) || !strings.Contains(out, "objects of other logs are taken over") {
			return out
		}
		return ""
	})
	e.matched()
	if after := e.liveInstances(); len(after) != len(before) || after[0].ID != before[0].ID {
		t.Errorf("instances before %v, after %v", before, after)
	}
	e.scale("web", 0)
	e.clean()
	e.oneLaunchPerClaim()
}
