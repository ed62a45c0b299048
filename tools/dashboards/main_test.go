package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

//lint:file-ignore SA1019 See page.go.

// Grafana finds each dashboard by its uid, each panel by its number, and shows all of them side by side.
func TestEveryDashboardHasItsPlace(t *testing.T) {
	var titles []string
	variables := map[string]bool{}
	for _, p := range pages {
		d, err := p.dashboard()
		if err != nil {
			t.Fatal(err)
		}
		titles = append(titles, *d.Title)
		if len(*d.Uid) > 40 || *d.Uid != "millwright-"+p.name {
			t.Errorf("%s has the uid %q", p.name, *d.Uid)
		}
		for _, v := range d.Templating.List {
			variables[v.Name] = true
		}
		checkGrid(t, d)
	}
	slices.Sort(titles)
	if diff := cmp.Diff([]string{"Millwright / Disruption", "Millwright / Lifecycle and EC2", "Millwright / Log and stream",
		"Millwright / Nodes and cost", "Millwright / Overview", "Millwright / Provisioning"}, titles); diff != "" {
		t.Error(diff)
	}
	for _, want := range []string{"datasource", "job", "nodepool", "zone", "capacity_type", "instance_type"} {
		if !variables[want] {
			t.Errorf("no dashboard has the variable %s", want)
		}
	}
}

// Two runs write the same bytes.
func TestDashboardsAreReproducible(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	for _, dir := range []string{first, second} {
		if err := write(dir); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range pages {
		a, errA := os.ReadFile(filepath.Join(first, p.name+".json"))
		b, errB := os.ReadFile(filepath.Join(second, p.name+".json"))
		if errA != nil || errB != nil || !slices.Equal(a, b) {
			t.Errorf("%s differs: %v, %v", p.name, errA, errB)
		}
	}
}

// checkGrid refuses panels of one number, outside the grid of 24 columns, or above one another.
func checkGrid(t *testing.T, d dashboard.Dashboard) {
	t.Helper()
	used := map[[2]uint32]string{}
	numbers := map[uint32]bool{}
	for _, p := range d.Panels {
		id, title, at := uint32(0), "", dashboard.GridPos{}
		if p.RowPanel != nil {
			id, title, at = p.RowPanel.Id, *p.RowPanel.Title, *p.RowPanel.GridPos
		} else {
			id, title, at = *p.Panel.Id, *p.Panel.Title, *p.Panel.GridPos
		}
		if numbers[id] || id == 0 {
			t.Errorf("%s, %s: number %d is used twice", *d.Title, title, id)
		}
		numbers[id] = true
		if at.X+at.W > 24 {
			t.Errorf("%s, %s ends in column %d", *d.Title, title, at.X+at.W)
		}
		for x := at.X; x < at.X+at.W; x++ {
			for y := at.Y; y < at.Y+at.H; y++ {
				if other := used[[2]uint32{x, y}]; other != "" {
					t.Fatalf("%s: %s covers %s", *d.Title, title, other)
				}
				used[[2]uint32{x, y}] = title
			}
		}
	}
}
