package drain

import (
	"time"

	"millwright/planner"
	"millwright/planner/world"
)

// setVolumes lists the attachments that must go before the instance may (reference: lifecycle §8.5). The
// attach-detach controller removes them; past the deadline nobody waits.
func (st *Step) setVolumes(s *planner.Snapshot, pods []*world.Pod) {
	ignored := ignoredVolumes(s, pods)
	for _, a := range s.World.VolumeAttachmentsOf(st.Node) {
		if a.Spec.Source.PersistentVolumeName == nil {
			continue
		}
		if !ignored[*a.Spec.Source.PersistentVolumeName] {
			st.Volumes = append(st.Volumes, a.Name)
		}
	}
	past := !st.Deadline.IsZero() && s.Certain().After(st.Deadline) || st.noticeDue(s.Certain())
	st.VolumesGone = len(st.Volumes) == 0 || past
	if !st.VolumesGone && !st.Deadline.IsZero() {
		st.wakeBy(st.Deadline.Add(time.Nanosecond))
	}
}

// ignoredVolumes are used by pods that stay until the instance goes, or that can't be stopped.
func ignoredVolumes(s *planner.Snapshot, pods []*world.Pod) map[string]bool {
	ignored := map[string]bool{}
	for _, p := range pods {
		stays := p.Class.Static() || planner.ToleratesDisrupted(p.Class) || RoleOf(p, s.Certain()) == Stuck
		if p.Terminal() || !stays {
			continue
		}
		for _, name := range claimNames(p) {
			if c := s.World.PersistentVolumeClaim(p.Namespace + "/" + name); c != nil && c.Spec.VolumeName != "" {
				ignored[c.Spec.VolumeName] = true
			}
		}
	}
	return ignored
}

// claimNames returns the pod's PersistentVolumeClaims; an ephemeral volume's is "<pod>-<volume>".
func claimNames(p *world.Pod) []string {
	var names []string
	for _, v := range p.Class.Spec.Volumes {
		switch {
		case v.PersistentVolumeClaim != nil:
			names = append(names, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			names = append(names, p.Name+"-"+v.Name)
		}
	}
	return names
}
