package process

import (
	"os"
	"runtime/debug"
)

// gcPercent is lower than Go's default: most of the heap lives as long as the process (World, catalogues),
// and doubling that for garbage is not worth the little CPU it saves.
const gcPercent = 50

// limitMemory sets how hard garbage is collected. GOGC and GOMEMLIMIT in the environment win.
func limitMemory(limit int64) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if limit > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit / 10 * 9)
	}
}
