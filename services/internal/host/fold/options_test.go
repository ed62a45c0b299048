package fold

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/store"
	"millwright/store/memlog"
)

func TestOptionsThatDifferAreTold(t *testing.T) {
	state := idle()
	ours, theirs := planner.DefaultOptions(), planner.DefaultOptions()
	theirs.LaunchTimeout = 7 * time.Minute
	n := &OutageNotifier{State: state, Instance: "pod-1", Options: ours}
	see := func(service string, options []byte) {
		state.Others.Store(&[]store.Leader{{Service: service, Identity: "pod-2", Info: map[string]string{store.InfoOptions: string(options)}}})
	}
	told := ""
	look := func() (reason, message string) {
		e, now := n.options(told)
		if told = now; e == nil {
			return "", ""
		}
		return e.Reason, e.Message
	}
	for name, set := range map[string]func(){
		"nobody else is there":        func() {},
		"all have the same":           func() { see(ledger.ServiceLifecycle, planner.EncodeOptions(ours)) },
		"a version that says nothing": func() { see(ledger.ServiceLifecycle, nil) },
		"the watcher records none":    func() { see(ledger.ServiceWatcher, planner.EncodeOptions(theirs)) },
	} {
		if set(); told != "" {
			t.Fatal("told before")
		}
		if reason, message := look(); reason != "" {
			t.Errorf("%s: told that %s", name, message)
		}
	}
	see(ledger.ServiceLifecycle, planner.EncodeOptions(theirs))
	if reason, message := look(); reason != "OptionsDiffer" || !strings.Contains(message, "lifecycle of pod-2 has") || !strings.Contains(message, "aunchTimeout") {
		t.Errorf("told %s: %s", reason, message)
	}
	if reason, _ := look(); reason != "" {
		t.Error("told twice")
	}
	see(ledger.ServiceLifecycle, planner.EncodeOptions(ours))
	if reason, _ := look(); reason != "" || told != "" {
		t.Error("not over")
	}
}

// idle is a State that nothing is folded into.
func idle() *State {
	return NewState(StateConfig{Log: memlog.New("test"), Logger: zerolog.Nop(), Registerer: prometheus.NewRegistry()})
}
