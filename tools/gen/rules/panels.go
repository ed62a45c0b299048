package rules

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Panel of a dashboard, with the fields that matter here.
type Panel struct {
	// File of the dashboard, without its directory.
	File        string `json:"-"`
	Title       string `json:"title"`
	Type        string `json:"type"`
	Description string `json:"description"`
	Links       []struct {
		URL string `json:"url"`
	} `json:"links"`
	Targets []struct {
		Expr string `json:"expr"`
	} `json:"targets"`
}

// Panels of all dashboards below the root of the repository, but for rows.
func Panels(root string) ([]Panel, error) {
	files, err := filepath.Glob(filepath.Join(root, "deploy/dashboards/*.json"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no dashboards below %s: %w", root, err)
	}
	var list []Panel
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var d struct {
			Panels []Panel `json:"panels"`
		}
		if err := json.Unmarshal(raw, &d); err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		for _, p := range d.Panels {
			if p.File = filepath.Base(file); p.Type != "row" {
				list = append(list, p)
			}
		}
	}
	return list, nil
}

// Where names a query of a panel: its dashboard, title, and letter.
func (p *Panel) Where(query int) string {
	return fmt.Sprintf("%s, %s %c", strings.TrimSuffix(p.File, ".json"), p.Title, 'A'+query)
}

// variable of a dashboard in a query; each stands for a value of a label, and $__rate_interval for a
// duration.
var variable = regexp.MustCompile(`\$\{?[a-z_]+\}?`)

// Expression of a query of a dashboard, with values for its variables.
func Expression(query, rateInterval, value string) string {
	return variable.ReplaceAllLiteralString(strings.ReplaceAll(query, "$__rate_interval", rateInterval), value)
}
