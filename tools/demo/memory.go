package main

import (
	"fmt"
	"os"
	"strings"
)

// residentMemory of a process as Linux reports it; empty elsewhere.
func residentMemory(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			var kib int
			if _, err := fmt.Sscanf(strings.TrimSpace(rest), "%d kB", &kib); err == nil {
				return fmt.Sprintf("%d MiB resident", kib/1024)
			}
		}
	}
	return ""
}
