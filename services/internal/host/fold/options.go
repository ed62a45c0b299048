package fold

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/services/internal/service"
	"millwright/store"
)

// Planning options are the same for the whole cluster: whoever starts to lead records its own, and all plan
// by those. Processes with different settings would take turns, so each reports it for as long as another
// differs. During a rolling change of flags the same happens for a while.

// differencesMax bounds what an event names.
const differencesMax = 3

// OptionsDiffer names the candidates that have planning options other than the given ones, each with the
// first that differ. The watcher records none; processes of versions that do not publish theirs are omitted.
func (s *State) OptionsDiffer(own planner.Options) []string {
	list := s.Others.Load()
	if list == nil {
		return nil
	}
	ours := planner.EncodeOptions(own)
	var texts []string
	for _, c := range *list {
		theirs := c.Info[store.InfoOptions]
		if theirs == "" || c.Service == ledger.ServiceWatcher || theirs == string(ours) {
			continue
		}
		texts = append(texts, fmt.Sprintf("%s of %s has %s", c.Service, c.Identity, differences(ours, []byte(theirs))))
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

// differences names the options of theirs that differ from ours.
func differences(ours, theirs []byte) string {
	var a, b map[string]json.RawMessage
	if json.Unmarshal(ours, &a) != nil || json.Unmarshal(theirs, &b) != nil {
		return "options that cannot be read"
	}
	all := maps.Clone(a)
	maps.Copy(all, b)
	var list []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !bytes.Equal(a[name], b[name]) {
			list = append(list, fmt.Sprintf("%s %s, not %s", name, orUnset(b[name]), orUnset(a[name])))
		}
	}
	if more := len(list) - differencesMax; more > 0 {
		list = append(list[:differencesMax], fmt.Sprintf("%d more", more))
	}
	return strings.Join(list, ", ")
}

func orUnset(v json.RawMessage) string {
	if len(v) == 0 {
		return "unset"
	}
	return string(v)
}

// options returns the event to publish about differing options, if any; told is what was published last.
func (n *OutageNotifier) options(told string) (*service.KubeEvent, string) {
	now := strings.Join(n.State.OptionsDiffer(n.Options), "; ")
	if now == told {
		return nil, told
	}
	if now == "" {
		n.State.logger.Info().Msg("planning options of all processes agree")
		return nil, now
	}
	n.State.logger.Warn().Str("differences", now).Msg("planning options differ between processes: those of the last to lead are in force")
	return &service.KubeEvent{Type: corev1.EventTypeWarning, Reason: "OptionsDiffer",
		Message: fmt.Sprintf("Planning options differ, those of the last to lead are in force: %s says that %s", n.Instance, now)}, now
}
