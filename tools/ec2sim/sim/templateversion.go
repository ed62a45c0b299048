package sim

import (
	"slices"
	"strconv"
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
	ImageID      string          `xml:"imageId,omitempty"`
	InstanceType string          `xml:"instanceType,omitempty"`
	Profile      string          `xml:"iamInstanceProfile>name,omitempty"`
	UserData     string          `xml:"userData,omitempty"`
	Groups       []string        `xml:"securityGroupIdSet>item,omitempty"`
	Interfaces   []interfaceData `xml:"networkInterfaceSet>item,omitempty"`
	Devices      []deviceData    `xml:"blockDeviceMappingSet>item,omitempty"`
	Metadata     *metadataData   `xml:"metadataOptions,omitempty"`
	Monitoring   bool            `xml:"monitoring>enabled"`
	Tags         []xmlTagSpec    `xml:"tagSpecificationSet>item,omitempty"`
}

type xmlTagSpec struct {
	Resource string   `xml:"resourceType"`
	Tags     []xmlTag `xml:"tagSet>item"`
}

func (s *Server) xmlVersion(t *launchTemplate, number int) xmlVersion {
	d := t.Versions[number-1]
	out := xmlTemplateData{d.ImageID, d.InstanceType, d.Profile, d.UserData, d.Groups, d.Interfaces, d.Devices, d.Metadata,
		d.Monitoring, nil}
	for _, kind := range sortedKeys(d.TagsByResource) {
		out.Tags = append(out.Tags, xmlTagSpec{kind, xmlTags(d.TagsByResource[kind])})
	}
	return xmlVersion{t.ID, t.Name, number, number == t.Default, stamp(t.CreatedAt), s.caller(), out}
}

func describeLaunchTemplateVersions(s *Server, c *call) (any, error) {
	t, err := s.findTemplate(c.params)
	if err != nil {
		return nil, err
	}
	numbers, err := s.versionNumbers(t, c.params.strs("LaunchTemplateVersion"))
	if err != nil {
		return nil, err
	}
	part, next, err := page(c, numbers, func(n int) string { return padded(n) }, templateBounds)
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
func (s *Server) versionNumbers(t *launchTemplate, asked []string) ([]int, *Error) {
	var numbers []int
	for _, text := range asked {
		n, err := t.version(text)
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
