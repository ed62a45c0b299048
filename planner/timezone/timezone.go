// Package timezone loads time zones of the IANA database from a copy within the binary (zoneinfo.zip of Go
// 1.26, release 2025c), never from the machine: a decision replays alike on any machine. A new copy changes
// decisions, so planner.Version rises with it.
package timezone

import (
	"archive/zip"
	"bytes"
	_ "embed"
	"fmt"
	"io"
	"time"
)

//go:embed zoneinfo.zip
var data []byte

// database is what the copy holds by name; err is why it can't be read, which is a fault of the build.
var database, err = zip.NewReader(bytes.NewReader(data), int64(len(data)))

// Load returns the zone of a name such as Europe/Berlin; "" and UTC are UTC. Local is not a valid name, since
// it has another meaning on each machine.
func Load(name string) (*time.Location, error) {
	if name == "" || name == "UTC" {
		return time.UTC, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open the time zones: %w", err)
	}
	file, err := database.Open(name)
	if err != nil {
		return nil, fmt.Errorf("time zone %q is not in the IANA database", name)
	}
	defer file.Close()
	content, err := io.ReadAll(file)
	if err != nil {
		return nil, fmt.Errorf("time zone %q is not in the IANA database", name) // a directory, such as Europe
	}
	l, err := time.LoadLocationFromTZData(name, content)
	if err != nil {
		return nil, fmt.Errorf("read time zone %q: %w", name, err)
	}
	return l, nil
}
