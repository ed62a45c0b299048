package workload

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"millwright/events"
)

// Files of a problem, as millctl plan reads them.
type Files struct {
	Objects, Catalogue string
}

// Write puts a problem into a directory: the objects as a stream of YAML documents, or of JSON ones.
func (p *Problem) Write(dir string, asJSON bool) (Files, error) {
	f := Files{filepath.Join(dir, "objects.yaml"), filepath.Join(dir, "catalog.json")}
	if asJSON {
		f.Objects = filepath.Join(dir, "objects.json")
	}
	if err := p.writeObjects(f.Objects, asJSON); err != nil {
		return f, fmt.Errorf("write objects: %w", err)
	}
	raw, err := json.Marshal(p.Catalogue.file())
	if err != nil {
		return f, fmt.Errorf("encode catalogue: %w", err)
	}
	if err := os.WriteFile(f.Catalogue, raw, 0o600); err != nil {
		return f, fmt.Errorf("write catalogue: %w", err)
	}
	return f, nil
}

func (p *Problem) writeObjects(path string, asJSON bool) error {
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer out.Close()
	w := bufio.NewWriter(out)
	for _, o := range p.Objects {
		raw, err := json.Marshal(o)
		if err != nil {
			return err
		}
		if !asJSON {
			if raw, err = yaml.JSONToYAML(raw); err != nil {
				return err
			}
			fmt.Fprintln(w, "---")
		}
		fmt.Fprintln(w, string(raw))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return out.Close()
}

type (
	catalogueFile struct {
		InstanceTypes []typeFile `json:"instanceTypes"`
	}
	typeFile struct {
		Name         string                           `json:"name"`
		Requirements []corev1.NodeSelectorRequirement `json:"requirements"`
		Capacity     map[string]string                `json:"capacity"`
		Overhead     map[string]string                `json:"overhead"`
		Offerings    []offeringFile                   `json:"offerings"`
	}
	offeringFile struct {
		Zone         string `json:"zone"`
		CapacityType string `json:"capacityType"`
		Price        string `json:"price"`
		Available    bool   `json:"available"`
	}
)

func (c *Catalogue) file() catalogueFile {
	prices := map[events.Price]int64{}
	for _, e := range c.Prices.Entries {
		key := e
		key.MicroUSDPerHour = 0
		prices[key] = e.MicroUSDPerHour
	}
	var f catalogueFile
	for i := range c.Types.InstanceTypes {
		t := &c.Types.InstanceTypes[i]
		out := typeFile{Name: t.Name, Capacity: quantities(t.Capacity), Overhead: quantities(t.Overhead)}
		for _, k := range slices.Sorted(maps.Keys(t.Requirements)) {
			out.Requirements = append(out.Requirements, corev1.NodeSelectorRequirement{Key: k, Operator: corev1.NodeSelectorOpIn, Values: t.Requirements[k]})
		}
		for _, o := range t.Offerings {
			price := prices[events.Price{InstanceType: t.Name, CapacityType: o.CapacityType, Zone: o.Zone}]
			out.Offerings = append(out.Offerings, offeringFile{o.Zone, o.CapacityType, fmt.Sprintf("%d.%06d", price/1e6, price%1e6), o.Available})
		}
		f.InstanceTypes = append(f.InstanceTypes, out)
	}
	return f
}

func quantities(m map[string]int64) map[string]string {
	out := map[string]string{}
	for k, n := range m {
		if k == "cpu" {
			out[k] = resource.NewMilliQuantity(n, resource.DecimalSI).String()
			continue
		}
		out[k] = resource.NewQuantity(n, resource.BinarySI).String()
	}
	return out
}
