package template

import (
	"maps"
	"slices"
	"strconv"

	"millwright/tools/ec2sim/sim/tag"
	"millwright/tools/ec2sim/sim/wire"
)

type xmlVersion struct {
	ID      string          `xml:"launchTemplateId"`
	Name    string          `xml:"launchTemplateName"`
	Number  int             `xml:"versionNumber"`
	Default bool            `xml:"defaultVersion"`
	Created string          `xml:"createTime"`
	By      string          `xml:"createdBy"`
	Data    xmlTemplateData `xml:"launchTemplateData"`
}

type xmlTemplateData struct {
	ImageID      string        `xml:"imageId,omitempty"`
	InstanceType string        `xml:"instanceType,omitempty"`
	Profile      string        `xml:"iamInstanceProfile>name,omitempty"`
	UserData     string        `xml:"userData,omitempty"`
	Groups       []string      `xml:"securityGroupIdSet>item,omitempty"`
	Interfaces   []Interface   `xml:"networkInterfaceSet>item,omitempty"`
	Devices      []deviceData  `xml:"blockDeviceMappingSet>item,omitempty"`
	Metadata     *MetadataData `xml:"metadataOptions,omitempty"`
	Monitoring   bool          `xml:"monitoring>enabled"`
	Tags         []xmlTagSpec  `xml:"tagSpecificationSet>item,omitempty"`
}

type xmlTagSpec struct {
	Resource string    `xml:"resourceType"`
	Tags     []tag.XML `xml:"tagSet>item"`
}

func (s *Templates) xmlVersion(t *Template, number int) xmlVersion {
	d := t.Versions[number-1]
	out := xmlTemplateData{d.ImageID, d.InstanceType, d.Profile, d.UserData, d.Groups, d.Interfaces, d.Devices, d.Metadata,
		d.Monitoring, nil}
	for _, kind := range slices.Sorted(maps.Keys(d.TagsByResource)) {
		out.Tags = append(out.Tags, xmlTagSpec{kind, tag.List(d.TagsByResource[kind])})
	}
	return xmlVersion{t.ID, t.Name, number, number == t.Default, wire.Stamp(t.CreatedAt), s.Caller(), out}
}

func (s *Templates) DescribeLaunchTemplateVersions(c *wire.Call) (any, error) {
	t, err := s.Find(c.Params)
	if err != nil {
		return nil, err
	}
	numbers, err := s.versionNumbers(t, c.Params.Strs("LaunchTemplateVersion"))
	if err != nil {
		return nil, err
	}
	part, next, err := wire.Page(c, numbers, func(n int) string { return padded(n) }, templateBounds)
	if err != nil {
		return nil, err
	}
	answer := struct {
		Versions []xmlVersion `xml:"launchTemplateVersionSet>item"`
		Next     string       `xml:"nextToken,omitempty"`
	}{Next: next}
	for _, n := range part {
		answer.Versions = append(answer.Versions, s.xmlVersion(t, n))
	}
	return answer, nil
}

// versionNumbers resolves the versions asked for; none means all.
func (s *Templates) versionNumbers(t *Template, asked []string) ([]int, *wire.Error) {
	var numbers []int
	for _, text := range asked {
		n, err := t.Version(text)
		if err != nil {
			return nil, err
		}
		numbers = append(numbers, n)
	}
	if len(asked) == 0 {
		for n := range t.Versions {
			numbers = append(numbers, n+1)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// padded makes numbers sort as text.
func padded(n int) string {
	text := strconv.Itoa(n)
	return "0000000000"[min(len(text), 10):] + text
}
