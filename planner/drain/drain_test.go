package drain_test

import (
	"math"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/drain"
	"millwright/planner/ledger"
	pt "millwright/planner/plannertest"
	"millwright/planner/world"
)

func want[T comparable](t rapid.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func names(pods []*world.Pod) string {
	var list []string
	for _, p := range pods {
		list = append(list, p.Name)
	}
	return strings.Join(list, " ")
}

func critical(p *corev1.Pod) { p.Spec.PriorityClassName = "system-node-critical" }

func grace(seconds int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &seconds }
}

func on(name string, options ...func(*corev1.Pod)) *corev1.Pod {
	return pt.Pod(name, append([]func(*corev1.Pod){pt.On("n")}, options...)...)
}

// The table of reference/lifecycle.md §8.1.
func TestRoles(t *testing.T) {
	protected := pt.Annotation(karpv1.DoNotDisruptAnnotationKey, "true")
	cases := map[string]struct {
		pod  *corev1.Pod
		want drain.Role
	}{
		"a running pod":                  {on("p"), drain.Evictable},
		"a daemon's pod":                 {pt.DaemonPod("p", "n"), drain.Evictable},
		"an ended pod":                   {on("p", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), drain.Ignored},
		"a static pod":                   {on("p", pt.OwnedBy("v1", "Node", "n")), drain.Ignored},
		"one that says no controller":    {on("p", pt.OwnedBy("v1", "Node", "n"), func(p *corev1.Pod) { p.OwnerReferences[0].Controller = nil }), drain.Ignored},
		"a pod that tolerates the taint": {on("p", pt.Toleration(karpv1.DisruptedTaintKey)), drain.Ignored},
		"a pod that tolerates all":       {on("p", pt.Toleration("")), drain.Ignored},
		"a pod that is being deleted":    {on("p", pt.Deleting(pt.Start.Add(-60*time.Second))), drain.Leaving},
		"a pod deleted over a minute":    {on("p", pt.Deleting(pt.Start.Add(-61*time.Second))), drain.Stuck},
		"a protected pod":                {on("p", protected), drain.Held},
		"a protected pod being deleted":  {on("p", protected, pt.Deleting(pt.Start)), drain.Leaving},
		"protection that has ended":      {on("p", pt.Annotation(karpv1.DoNotDisruptAnnotationKey, "1ns"), func(p *corev1.Pod) { s := metav1.NewTime(pt.Start.Add(-time.Second)); p.Status.StartTime = &s }), drain.Evictable},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			want(t, "role", drain.RoleOf(pt.New(tc.pod).World.Pod("pod-p"), pt.Start), tc.want)
		})
	}
}

func cluster(pods ...any) *pt.Cluster {
	c := pt.New(pt.Pool("p"))
	c.AddNode("n", "p")
	c.See(pods...)
	return c
}

func TestTiersGoOneAfterTheOther(t *testing.T) {
	plain, daemon := on("plain"), pt.DaemonPod("daemon", "n")
	crit, critDaemon := on("crit", critical), pt.DaemonPod("critd", "n", critical)
	c := cluster(plain, daemon, crit, critDaemon)
	for i, p := range []*corev1.Pod{plain, daemon, crit, critDaemon} {
		step := drain.Plan(c.Snapshot(), "n")
		want(t, "tier", step.Tier, i+1)
		want(t, "evicted", names(step.Evict), p.Name)
		want(t, "waited for", len(step.Waiting), 4-i)
		p.DeletionTimestamp = &metav1.Time{Time: c.Clock.Add(30 * time.Second)}
		c.See(p.DeepCopy())
		step = drain.Plan(c.Snapshot(), "n")
		want(t, "tier while its pod leaves", step.Tier, i+1)
		want(t, "leaving", names(step.Leaving), p.Name)
		want(t, "not evicted again", names(step.Evict), "")
		c.Gone(p)
	}
	step := drain.Plan(c.Snapshot(), "n")
	want(t, "done", step.Done(), true)
	want(t, "message", step.Message(), "")
}

func TestAHeldPodHoldsLaterTiers(t *testing.T) {
	c := cluster(on("held", pt.Annotation(karpv1.DoNotDisruptAnnotationKey, "2h")), pt.DaemonPod("daemon", "n"))
	step := drain.Plan(c.Snapshot(), "n")
	want(t, "tier", step.Tier, drain.TierPlain)
	want(t, "held", names(step.Held), "held")
	want(t, "evicted", names(step.Evict), "")
	want(t, "message", step.Message(), "2 pods are waiting to be evicted")
	want(t, "wakes when protection ends", step.WakeAt, pt.Start.Add(2*time.Hour))
	c.Advance(2 * time.Hour)
	want(t, "evicted after", names(drain.Plan(c.Snapshot(), "n").Evict), "held")
}

func TestAStuckPodHoldsNothing(t *testing.T) {
	c := cluster(on("stuck", pt.Deleting(pt.Start.Add(10*time.Second))), pt.DaemonPod("daemon", "n"))
	step := drain.Plan(c.Snapshot(), "n")
	want(t, "wakes when it is stuck", step.WakeAt, pt.Start.Add(70*time.Second+time.Nanosecond))
	c.Clock = step.WakeAt
	c.Beat()
	step = drain.Plan(c.Snapshot(), "n")
	want(t, "stuck", names(step.Stuck), "stuck")
	want(t, "evicted", names(step.Evict), "daemon")
}

func deadline(at time.Time) *karpv1.NodeClaim {
	return pt.Claim("n-claim", "n", "p", func(c *karpv1.NodeClaim) {
		c.Annotations = pt.Map(karpv1.TerminationTimestampAnnotationKey, at.Format(time.RFC3339))
	})
}

// The rules are those of reference/lifecycle.md §8.4.
func TestDeadline(t *testing.T) {
	at := pt.Start.Add(10 * time.Minute)
	protected := pt.Annotation(karpv1.DoNotDisruptAnnotationKey, "true")
	cases := map[string]struct {
		pod   *corev1.Pod
		after time.Duration
		grace int64 // 0: not deleted
	}{
		"grace still fits":                       {on("p", grace(60)), 9 * time.Minute, 0},
		"grace no longer fits":                   {on("p", grace(60)), 9*time.Minute + time.Second, 59},
		"grace exceeds the time left":            {on("p", grace(3600)), 0, 600},
		"no grace named is 30 s":                 {on("p"), 9*time.Minute + 31*time.Second, 29},
		"a protected pod too":                    {on("p", grace(60), protected), 9*time.Minute + 30*time.Second, 30},
		"past the deadline one second is left":   {on("p", grace(60)), 11 * time.Minute, 1},
		"a pod leaving in time is left alone":    {on("p", grace(60), pt.Deleting(at)), 9 * time.Minute, 0},
		"a pod leaving too late is deleted anew": {on("p", grace(3600), pt.Deleting(at.Add(time.Hour))), 9 * time.Minute, 60},
		"a pod that tolerates the taint is not":  {on("p", grace(3600), pt.Toleration("")), 9 * time.Minute, 0},
		"grace of centuries":                     {on("p", grace(1e10), protected), time.Minute, 540},
		"a grace too long for any count":         {on("p", grace(math.MaxInt64)), 0, 600},
		"a pod leaving in centuries":             {on("p", grace(9e9), pt.Deleting(at.Add(9e9*time.Second))), time.Minute, 540},
		"of a later tier":                        {pt.DaemonPod("p", "n", grace(3600)), 0, 600},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := cluster(tc.pod, on("first", grace(1)), deadline(at))
			c.Advance(tc.after)
			step := drain.Plan(c.Snapshot(), "n")
			got := int64(0)
			for _, d := range step.Delete {
				if d.Pod.Name == "p" {
					got = d.GraceSeconds
				}
			}
			want(t, "grace", got, tc.grace)
			if tc.grace > 0 && strings.Contains(names(step.Evict)+names(step.Held), "p") {
				t.Error("the pod is both deleted and evicted or held")
			}
		})
	}
}

func TestDeadlineThatCannotBeRead(t *testing.T) {
	for _, text := range []string{"soon", "9999-12-31T23:59:59-01:00", "0000-01-01T00:00:00+01:00"} { // of the year 10000, or before 0
		k := deadline(pt.Start)
		k.Annotations[karpv1.TerminationTimestampAnnotationKey] = text
		c := cluster(on("p"), k)
		step := drain.Plan(c.Snapshot(), "n")
		want(t, "invalid", step.DeadlineInvalid, text)
		want(t, "evicted as without", names(step.Evict), "p")
		c.Record(ledger.KindDrainStarted, &ledger.DrainStarted{Node: "n", Deadline: pt.Start})
		want(t, "the record's deadline stands in", drain.Plan(c.Snapshot(), "n").Deadline, pt.Start)
	}
}

func TestTierIsRecordedOnceAndWhenAPodJoins(t *testing.T) {
	c := cluster(on("a"), on("b"))
	c.Record(ledger.KindDrainStarted, &ledger.DrainStarted{Node: "n", Claim: "n-claim"})
	next := func() *ledger.DrainTierStarted { return drain.Plan(c.Snapshot(), "n").TierStarted(c.Ledger.Drain("n")) }
	first := next()
	want(t, "evict", len(first.Evict), 2)
	c.Record(ledger.KindDrainTierStarted, first)
	want(t, "recorded once", next() == nil, true)
	c.Gone(on("a"))
	want(t, "not when a pod goes", next() == nil, true)
	c.See(on("c"))
	want(t, "again when a pod joins", len(next().Evict), 2)
}

func attachment(name, node, volume string) *storagev1.VolumeAttachment {
	return &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       storagev1.VolumeAttachmentSpec{NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume}},
	}
}

func TestVolumes(t *testing.T) {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv-stays"}}
	uses := func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "d", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	}
	inline := attachment("inline", "n", "x")
	inline.Spec.Source.PersistentVolumeName = nil
	c := cluster(claim, attachment("moves", "n", "pv-moves"), attachment("stays", "n", "pv-stays"), attachment("other", "m", "pv-other"), inline,
		on("tolerant", uses, pt.Toleration("")))
	step := drain.Plan(c.Snapshot(), "n")
	want(t, "pods", step.PodsGone, true)
	want(t, "volumes", strings.Join(step.Volumes, " "), "moves")
	want(t, "done", step.Done(), false)
	c.See(deadline(pt.Start.Add(time.Minute)))
	c.Advance(time.Minute + time.Second)
	want(t, "done past the deadline", drain.Plan(c.Snapshot(), "n").Done(), true)
	c.Gone(deadline(pt.Start), attachment("moves", "n", "pv-moves"))
	want(t, "done once detached", drain.Plan(c.Snapshot(), "n").Done(), true)
}

// A protected pod is never evicted, no pod is in two lists, and a drain without pods to wait for is the only
// one that is done.
func TestStepProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := cluster()
		protected := map[string]bool{}
		for i := range rapid.IntRange(0, 6).Draw(t, "pods") {
			p := on(string(rune('a'+i)), grace(int64(rapid.IntRange(0, 900).Draw(t, "grace"))))
			if rapid.Bool().Draw(t, "protected") {
				pt.Annotation(karpv1.DoNotDisruptAnnotationKey, "true")(p)
				protected[p.Name] = true
			}
			if rapid.Bool().Draw(t, "daemon") {
				pt.OwnedBy("apps/v1", "DaemonSet", "d")(p)
			}
			if rapid.Bool().Draw(t, "critical") {
				critical(p)
			}
			if rapid.IntRange(0, 2).Draw(t, "deleting") == 0 {
				pt.Deleting(pt.Start.Add(time.Duration(rapid.IntRange(-200, 1200).Draw(t, "until")) * time.Second))(p)
			}
			c.See(p)
		}
		if rapid.Bool().Draw(t, "deadline") {
			c.See(deadline(pt.Start.Add(time.Duration(rapid.IntRange(-60, 900).Draw(t, "at")) * time.Second)))
		}
		step := drain.Plan(c.Snapshot(), "n")
		seen := map[string]bool{}
		for _, p := range step.Evict {
			if protected[p.Name] {
				t.Fatalf("protected pod %s is evicted", p.Name)
			}
			if drain.TierOf(p.Class) != step.Tier {
				t.Fatalf("pod %s of tier %d is evicted in tier %d", p.Name, drain.TierOf(p.Class), step.Tier)
			}
		}
		for _, list := range [][]*world.Pod{step.Evict, step.Held, step.Leaving, step.Stuck} {
			for _, p := range list {
				if seen[p.Name] {
					t.Fatalf("pod %s is in two lists", p.Name)
				}
				seen[p.Name] = true
			}
		}
		for _, d := range step.Delete {
			if seen[d.Pod.Name] || d.GraceSeconds < 1 || step.Deadline.IsZero() {
				t.Fatalf("deletion of %s with %d s", d.Pod.Name, d.GraceSeconds)
			}
		}
		if step.Done() != (len(step.Waiting) == 0) {
			t.Fatalf("done %v with %d pods waited for", step.Done(), len(step.Waiting))
		}
	})
}

// An instance that is taken away: the pods of all tiers are evicted at once, budgets and protection hold
// until the margin, and what is left then is deleted, whatever grace period it asked for (reference:
// disruption §8).
func TestNotice(t *testing.T) {
	c := cluster(on("plain"), on("long", grace(600)), on("crit", critical), on("held", pt.Annotation(karpv1.DoNotDisruptAnnotationKey, "true")))
	claim := "n-claim"
	notice := c.Clock.Add(2 * time.Minute)
	c.Record(ledger.KindClaimDoomed, &ledger.ClaimDoomed{Claim: claim, UID: "claim-n-claim", Reason: "spot_interrupted", Deadline: notice})
	step := drain.Plan(c.Snapshot(), "n")
	want(t, "evicted", names(step.Evict), "crit long plain")
	want(t, "held", names(step.Held), "held")
	want(t, "deleted", len(step.Delete), 0)
	want(t, "wake", step.WakeAt, notice.Add(-drain.NoticeMargin))
	c.Clock = notice.Add(-drain.NoticeMargin)
	c.Beat()
	for paced, step := range map[bool]drain.Step{false: drain.Plan(c.Snapshot(), "n"), true: drain.PlanPaced(c.Snapshot(), "n")} {
		want(t, "evicted", names(step.Evict)+names(step.Held), "")
		want(t, "deleted", len(step.Delete), 4)
		want(t, "tier", step.Tier, drain.TierForced)
		want(t, "forced by a deadline", step.Forced(), false)
		for _, d := range step.Delete {
			want(t, "grace of "+d.Pod.Name, d.GraceSeconds, 30)
		}
		r := step.TierStarted(&ledger.Drain{Tier: 1, TierPods: map[types.UID]bool{"pod-plain": true, "pod-long": true, "pod-crit": true, "pod-held": true}})
		if r == nil || len(r.Delete) != 4 || !r.Notice.Equal(notice) {
			t.Errorf("record (paced %t): %+v", paced, r)
		}
	}
}
