package process

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync/atomic"

	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/store"
	"millwright/store/record"
)

// Instance is the name of this instance in leader election.
func (s *Settings) Instance() string {
	if s.Identity != "" {
		return s.Identity
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s-%d", host, os.Getpid())
}

// info is published beside the leader key of a unit.
func (c Config) info(u Unit) map[string]string {
	if u.Follows {
		return map[string]string{store.InfoKinds: string(ledger.KnownKinds()), store.InfoFormat: strconv.Itoa(record.Format), "version": c.Version}
	}
	return map[string]string{
		store.InfoOptions: string(planner.EncodeOptions(c.Settings.Options())), store.InfoKinds: string(ledger.KnownKinds()),
		store.InfoFormat: strconv.Itoa(record.Format), "version": c.Version, "planner": strconv.FormatUint(uint64(planner.Version), 10),
		"mode": string(c.Settings.ModeOf(u.Name)),
	}
}

func buildLabels(version string) []string {
	commit := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 7 {
				commit = s.Value[:7]
			}
		}
	}
	return []string{version, runtime.Version(), runtime.GOARCH, commit}
}

// flag is a check that passes once it is set.
type flag struct {
	done atomic.Bool
	text string
}

func (f *flag) set() { f.done.Store(true) }

func (f *flag) check() error {
	if f.done.Load() {
		return nil
	}
	return errors.New(f.text)
}
