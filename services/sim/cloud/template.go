package cloud

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"millwright/planner/ledger"
	"millwright/services/internal/ec2"
)

// templates by id and by name.
type templates struct {
	byID   map[string]ec2.LaunchTemplate
	byName map[string]string
	made   int
}

func newTemplates() templates {
	return templates{byID: map[string]ec2.LaunchTemplate{}, byName: map[string]string{}}
}

// EnsureLaunchTemplate returns the template of this name, made if it does not exist.
func (c *Cloud) EnsureLaunchTemplate(_ context.Context, t ec2.LaunchTemplate) (ledger.LaunchTemplateRef, error) {
	id, ok := c.templates.byName[t.Name]
	if !ok {
		c.templates.made++
		id = fmt.Sprintf("lt-%04d", c.templates.made)
		c.templates.byName[t.Name], c.templates.byID[id] = id, t
	}
	return ledger.LaunchTemplateRef{ID: id, Version: "1"}, nil
}

// DescribeLaunchTemplates lists all by id.
func (c *Cloud) DescribeLaunchTemplates(context.Context, map[string]string) ([]ec2.TemplateSummary, error) {
	var list []ec2.TemplateSummary
	for _, id := range slices.Sorted(maps.Keys(c.templates.byID)) {
		list = append(list, ec2.TemplateSummary{ID: id, Name: c.templates.byID[id].Name, Tags: c.templates.byID[id].Tags})
	}
	return list, nil
}

// DeleteLaunchTemplate forgets a template.
func (c *Cloud) DeleteLaunchTemplate(_ context.Context, id string) error {
	delete(c.templates.byName, c.templates.byID[id].Name)
	delete(c.templates.byID, id)
	return nil
}

// DropTemplates deletes all templates, as a user may.
func (c *Cloud) DropTemplates() {
	made := c.templates.made
	c.templates = newTemplates()
	c.templates.made = made
}

// Boot is what the user data of an instance tells kubelet to register with.
func (i *Instance) Boot() (labels map[string]string, taints []corev1.Taint, err error) {
	data, err := base64.StdEncoding.DecodeString(aws.ToString(i.Template.Data.UserData))
	if err != nil {
		return nil, nil, fmt.Errorf("decode user data: %w", err)
	}
	_, text, ok := strings.Cut(string(data), "apiVersion: node.eks.aws/v1alpha1")
	if !ok {
		return nil, nil, fmt.Errorf("user data has no NodeConfig")
	}
	text, _, _ = strings.Cut(text, "\n--")
	var config nodeConfig
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		return nil, nil, fmt.Errorf("parse NodeConfig: %w", err)
	}
	labels = map[string]string{}
	for _, flag := range config.Spec.Kubelet.Flags {
		list, ok := strings.CutPrefix(flag, "--node-labels=")
		if !ok {
			continue
		}
		for _, pair := range strings.Split(strings.Trim(list, `"`), ",") {
			key, value, _ := strings.Cut(pair, "=")
			labels[key] = value
		}
	}
	return labels, config.Spec.Kubelet.Config.RegisterWithTaints, nil
}

type nodeConfig struct {
	Spec struct {
		Kubelet struct {
			Flags  []string `json:"flags"`
			Config struct {
				RegisterWithTaints []corev1.Taint `json:"registerWithTaints"`
			} `json:"config"`
		} `json:"kubelet"`
	} `json:"spec"`
}
