package provisioner

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/ledger"
	"millwright/planner/provision"
	"millwright/services/internal/service"
)

const failedSchedulingFor = 5 * time.Minute

// publishVerdicts publishes the verdicts that have not been published on pods yet.
func (s *Service) publishVerdicts(r provision.Round, seq uint64) {
	early := s.passing.noteProblems(r.Problems, s.host.Now())
	for _, v := range r.Verdicts {
		switch {
		case v.NotOurs, v.Buffer != "": // there is no such pod
		case len(v.Reasons) > 0 && early: // the log says it
		case len(v.Reasons) > 0:
			s.host.Event(service.KubeEvent{Object: podReference(v.Pod), Type: corev1.EventTypeWarning, Reason: "FailedScheduling",
				Message: "Failed to schedule pod, " + refusalText(v.Reasons), DedupeFor: failedSchedulingFor})
		case v.Changed:
			s.host.Event(service.KubeEvent{Object: podReference(v.Pod), Type: corev1.EventTypeNormal, Reason: "Nominated",
				Message: "Pod should schedule on: " + s.target(r, v, seq)})
		}
	}
	for _, p := range r.Problems {
		if p.Reason == "NoCompatibleInstanceTypes" {
			s.host.Event(service.KubeEvent{Object: poolReference(p.NodePool), Type: corev1.EventTypeWarning, Reason: p.Reason,
				Message: p.Message, DedupeFor: time.Minute})
		}
	}
}

// target names the claim or node of a verdict as users know it (reference: scheduling §11).
func (s *Service) target(r provision.Round, v provision.PodVerdict, seq uint64) string {
	switch {
	case v.NewClaim > 0:
		return "nodeclaim/" + ledger.ClaimName(s.host.LogID(), r.Claims[v.NewClaim-1].NodePool, seq, v.NewClaim-1)
	case v.Claim != "":
		return "nodeclaim/" + v.Claim
	}
	return "node/" + v.Node
}

// refusalText has one part per NodePool.
func refusalText(reasons []ledger.Refusal) string {
	parts := make([]string, 0, len(reasons))
	for _, r := range reasons {
		if r.NodePool == "" {
			parts = append(parts, r.Message)
			continue
		}
		parts = append(parts, fmt.Sprintf("incompatible with nodepool %q, %s", r.NodePool, r.Message))
	}
	return strings.Join(parts, "; ")
}

// log writes the lines that people and tools look for (reference: operations §4).
func (s *Service) log(p planned, seq uint64) {
	r := p.round
	if w, ok := p.decision.Payload.(*ledger.ClaimWithdrawn); ok {
		s.logger.Info().Str("nodeclaim", w.Claim).Str("reason", w.Reason).Uint64("decision_id", seq).Msg("withdrew planned nodeclaim")
	}
	fresh := make([]string, 0, podsLoggedMax)
	changed, placed, refused := 0, map[string]bool{}, 0
	for _, v := range r.Verdicts {
		if !v.Changed {
			continue
		}
		changed++
		key := v.Pod.Namespace + "/" + v.Pod.Name
		if len(fresh) < podsLoggedMax {
			fresh = append(fresh, key)
		}
		switch {
		case len(v.Reasons) > 0:
			if refused++; refused <= refusedLoggedMax {
				s.logger.Warn().Str("pod", key).Uint64("decision_id", seq).Str("error", refusalText(v.Reasons)).Msg("could not schedule pod")
			}
		case v.NewClaim == 0:
			placed[v.Node+v.Claim] = true
		}
	}
	if changed == 0 {
		return
	}
	if more := changed - len(fresh); more > 0 {
		fresh = append(fresh, fmt.Sprintf("and %d other(s)", more))
	}
	s.logger.Info().Strs("pods", fresh).Dur("duration", p.took).Uint64("decision_id", seq).Msg("found provisionable pod(s)")
	if len(r.Claims) > 0 {
		s.logger.Info().Int("nodeclaims", len(r.Claims)).Int("pods", r.Planned).Int64("price_micro_usd_per_hour", r.PricePerHour).
			Uint64("decision_id", seq).Msg("computed new nodeclaim(s) to fit pod(s)")
	}
	if len(placed) > 0 {
		s.logger.Info().Int("nodes", len(placed)).Int("pods", r.Placed).Uint64("decision_id", seq).
			Msg("computed unready node(s) will fit pod(s)")
	}
}

// logLimits says once of each static NodePool that its limit keeps it from having its replicas.
func (s *Service) logLimits(pools []string) {
	for _, name := range pools {
		if !slices.Contains(s.atLimit, name) {
			s.logger.Info().Str("nodepool", name).Msg("nodepool node limit reached")
		}
	}
	s.atLimit = pools
}

func podReference(ref ledger.PodRef) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: ref.Namespace, Name: ref.Name, UID: ref.UID}
}

func poolReference(name string) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: karpv1.SchemeGroupVersion.String(), Kind: "NodePool", Name: name}
}
