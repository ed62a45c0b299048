package retention

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"millwright/planner/ledger"
	"millwright/services/internal/service"
	"millwright/store"
)

// alarmSlack keeps an alarm from being raised again and again at its limit.
const alarmSlack = 0.05

// levels of the quota at which an alarm is raised, with the reason and what is done about it.
var levels = []struct {
	from         float64
	reason, text string
}{
	{store.ArchiveEagerlyFrom, "LogHalfFull", "records are archived eagerly"},
	{store.OmitExplanationsFrom, "LogNearlyFull", "explanations stay out of new records until there is room"},
}

// alarm raises an alarm when a level is reached.
func (k *Keeper) alarm(ctx context.Context, u store.Usage) error {
	for _, l := range levels {
		if u.Level() < l.from-alarmSlack {
			delete(k.raised, l.reason)
		}
		if u.Level() < l.from || k.raised[l.reason] {
			continue
		}
		text, quota := l.text, fmt.Sprintf("its %d MiB", u.QuotaBytes>>20)
		if u.Assumed { // then explanations stay in
			text, quota = levels[0].text, fmt.Sprintf("%d MiB, etcd's default, as it reports no quota", u.QuotaBytes>>20)
		}
		if k.archiver == nil {
			text = "nothing can be archived without --archive-dir"
		}
		err := k.raiseAlarm(ctx, l.reason, fmt.Sprintf("the database of the event log uses %.0f %% of %s: %s", 100*u.Level(), quota, text))
		if err != nil {
			return err
		}
	}
	return nil
}

// raiseAlarm publishes an alarm as a KubeEvent, and records it once until it is over.
func (k *Keeper) raiseAlarm(ctx context.Context, reason, message string) error {
	k.cfg.Host.Event(service.KubeEvent{
		Object: corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: "kube-system"},
		Type:   corev1.EventTypeWarning, Reason: reason, Message: message,
	})
	if k.raised[reason] {
		return nil
	}
	k.metrics.alarms.WithLabelValues(reason).Inc()
	k.cfg.Logger.Error().Str("reason", reason).Msg(message)
	if err := k.cfg.Host.Note(ctx, ledger.KindAlarmRaised, &ledger.AlarmRaised{Reason: reason, Message: message}, "", 0); err != nil {
		return fmt.Errorf("record alarm: %w", err)
	}
	k.raised[reason] = true
	return nil
}
