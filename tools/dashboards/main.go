// Command dashboards writes the Grafana dashboards of deploy/dashboards. `make generate` runs it;
// tools/gen/rules checks that every query parses and names metrics that exist.
//
// Usage: dashboards DIR
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: dashboards DIR")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "dashboards:", err)
		os.Exit(1)
	}
}

// write replaces the dashboards in a directory.
func write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	old, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return err
	}
	for _, file := range old {
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	for _, p := range pages {
		d, err := p.dashboard()
		if err != nil {
			return err
		}
		raw, err := json.MarshalIndent(d, "", " ")
		if err != nil {
			return fmt.Errorf("encode %s: %w", p.name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, p.name+".json"), append(raw, '\n'), 0o644); err != nil {
			return err
		}
	}
	return nil
}
