// Package ami holds the account's machine images and the SSM parameters that name them.
package ami

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"millwright/tools/ec2sim/sim/account"
	"millwright/tools/ec2sim/sim/tag"
	"millwright/tools/ec2sim/sim/wire"
)

// Image is an AMI.
type Image struct {
	ID         string            `json:"id"`
	Name       string            `json:"name"`
	Arch       string            `json:"arch"` // x86_64, arm64
	Owner      string            `json:"owner"`
	Created    time.Time         `json:"created"`
	Deprecated time.Time         `json:"deprecated"`
	Family     string            `json:"family"`
	Tags       map[string]string `json:"tags,omitempty"`
}

// Owners of the public images.
const (
	ownerEKS          = "602401143452"
	ownerBottlerocket = "092701018921"
	ownerWindows      = "801119661308"
)

// release of images: EKS-optimised Amazon Linux carries a date, Bottlerocket a version.
type release struct {
	date         string // YYYYMMDD
	bottlerocket string
}

// releases that exist from the start, oldest first; aliases with @latest mean the last.
var releases = []release{{"20260107", "1.52.0"}, {"20260218", "1.54.0"}, {"20260311", "1.55.0"}}

// Images are the AMIs and the SSM parameters that name them.
type Images struct {
	*account.Account
	ByID       map[string]*Image
	parameters map[string]string
}

// New holds those of the cluster's Kubernetes minor version and its neighbours.
func New(a *account.Account) *Images {
	images, parameters := map[string]*Image{}, map[string]string{}
	for _, minor := range neighbours(a.Cfg.KubernetesVersion) {
		for i, r := range releases {
			publish(images, parameters, minor, r, i == len(releases)-1)
		}
	}
	return &Images{a, images, parameters}
}

// neighbours are the minor versions from four before to one after, and 1.32, the last with AL2 images.
func neighbours(version string) []string {
	_, text, _ := strings.Cut(version, ".")
	minor, err := strconv.Atoi(text)
	if err != nil {
		return []string{version}
	}
	out := []string{}
	for m := max(25, minor-4); m <= minor+1; m++ {
		out = append(out, "1."+strconv.Itoa(m))
	}
	if !slices.Contains(out, "1.32") {
		out = append(out, "1.32")
	}
	return out
}

// publish adds one release of all families for a minor version, with the SSM parameters that name it.
func publish(images map[string]*Image, parameters map[string]string, minor string, r release, latest bool) {
	created, _ := time.Parse("20060102", r.date)
	add := func(name, arch, owner, family string, paths ...string) {
		im := &Image{ID: imageID(name), Name: name, Arch: arch, Owner: owner, Created: created,
			Deprecated: created.AddDate(2, 0, 0), Family: family}
		images[im.ID] = im
		for _, path := range paths {
			if path != "" {
				parameters[path] = im.ID
			}
		}
	}
	publishAL2023(add, minor, r, latest)
	publishAL2(add, minor, r, latest)
	publishBottlerocket(add, minor, r, latest)
	publishWindows(add, minor, r, latest)
}

type addImage func(name, arch, owner, family string, paths ...string)

func only(latest bool, path string) string {
	if latest {
		return path
	}
	return ""
}

func publishAL2023(add addImage, minor string, r release, latest bool) {
	for _, v := range [][2]string{{"x86_64", "standard"}, {"x86_64", "nvidia"}, {"x86_64", "neuron"}, {"arm64", "standard"}, {"arm64", "nvidia"}} {
		name := fmt.Sprintf("amazon-eks-node-al2023-%s-%s-%s-v%s", v[0], v[1], minor, r.date)
		base := fmt.Sprintf("/aws/service/eks/optimized-ami/%s/amazon-linux-2023/%s/%s/", minor, v[0], v[1])
		add(name, v[0], ownerEKS, "AL2023", base+name+"/image_id", only(latest, base+"recommended/image_id"))
	}
}

// publishAL2: the last minor version with Amazon Linux 2 images is 1.32.
func publishAL2(add addImage, minor string, r release, latest bool) {
	if n, err := strconv.Atoi(strings.TrimPrefix(minor, "1.")); err != nil || n > 32 {
		return
	}
	for _, v := range [][3]string{{"amazon-linux-2", "amazon-eks-node", "x86_64"},
		{"amazon-linux-2-arm64", "amazon-eks-arm64-node", "arm64"}, {"amazon-linux-2-gpu", "amazon-eks-gpu-node", "x86_64"}} {
		name := fmt.Sprintf("%s-%s-v%s", v[1], minor, r.date)
		base := fmt.Sprintf("/aws/service/eks/optimized-ami/%s/%s/", minor, v[0])
		add(name, v[2], ownerEKS, "AL2", base+name+"/image_id", only(latest, base+"recommended/image_id"))
	}
}

func publishBottlerocket(add addImage, minor string, r release, latest bool) {
	for _, arch := range []string{"x86_64", "arm64"} {
		for _, variant := range []string{"", "-nvidia"} {
			name := fmt.Sprintf("bottlerocket-aws-k8s-%s%s-%s-v%s-%s", minor, variant, arch, r.bottlerocket, wire.ShortHash(minor+variant+arch+r.bottlerocket))
			base := fmt.Sprintf("/aws/service/bottlerocket/aws-k8s-%s%s/%s/", minor, variant, arch)
			add(name, arch, ownerBottlerocket, "Bottlerocket", base+r.bottlerocket+"/image_id", only(latest, base+"latest/image_id"))
		}
	}
}

// publishWindows: only the latest of a year has a parameter. 2025 is there from 1.35 on.
func publishWindows(add addImage, minor string, r release, latest bool) {
	n, err := strconv.Atoi(strings.TrimPrefix(minor, "1."))
	for _, year := range []string{"2019", "2022", "2025"} {
		if err != nil || year == "2025" && n < 35 {
			continue
		}
		base := fmt.Sprintf("Windows_Server-%s-English-Core-EKS_Optimized-%s", year, minor)
		date := r.date[:4] + "." + r.date[4:6] + "." + r.date[6:]
		add(base+"-"+date, "x86_64", ownerWindows, "Windows"+year, only(latest, "/aws/service/ami-windows-latest/"+base+"/image_id"))
	}
}

func imageID(name string) string {
	sum := sha256.Sum256([]byte("ami/" + name))
	return "ami-0" + hex.EncodeToString(sum[:8])
}

func (s *Images) GetParameter(c *wire.Call) (any, error) {
	var input struct{ Name string }
	if err := wire.ReadJSON(c, &input); err != nil {
		return nil, err
	}
	name := strings.TrimPrefix(input.Name, "arn:aws:ssm:"+s.Region.Name+"::parameter")
	value, ok := s.parameters[name]
	if !ok {
		return nil, wire.Refuse("ParameterNotFound", "")
	}
	return map[string]any{"Parameter": map[string]any{
		"Name": name, "Type": "String", "Value": value, "Version": 1, "DataType": "text",
		"ARN":              "arn:aws:ssm:" + s.Region.Name + "::parameter" + name,
		"LastModifiedDate": float64(s.imageTime(value).Unix()),
	}}, nil
}

func (s *Images) imageTime(id string) time.Time {
	if im := s.ByID[id]; im != nil {
		return im.Created
	}
	return time.Unix(0, 0)
}

type xmlImage struct {
	ID           string    `xml:"imageId"`
	Location     string    `xml:"imageLocation"`
	State        string    `xml:"imageState"`
	Owner        string    `xml:"imageOwnerId"`
	OwnerAlias   string    `xml:"imageOwnerAlias,omitempty"`
	Public       bool      `xml:"isPublic"`
	Arch         string    `xml:"architecture"`
	Type         string    `xml:"imageType"`
	Name         string    `xml:"name"`
	Description  string    `xml:"description"`
	RootType     string    `xml:"rootDeviceType"`
	RootName     string    `xml:"rootDeviceName"`
	Virtual      string    `xml:"virtualizationType"`
	Hypervisor   string    `xml:"hypervisor"`
	ENA          bool      `xml:"enaSupport"`
	Created      string    `xml:"creationDate"`
	DeprecatedAt string    `xml:"deprecationTime,omitempty"`
	Platform     string    `xml:"platformDetails"`
	Tags         []tag.XML `xml:"tagSet>item"`
}

func (s *Images) xmlImage(im *Image) xmlImage {
	return xmlImage{ID: im.ID, Location: "amazon/" + im.Name, State: "available", Owner: im.Owner, OwnerAlias: s.ownerAlias(im),
		Public: true, Arch: im.Arch, Type: "machine", Name: im.Name, Description: im.Family + " image for EKS", RootType: "ebs",
		RootName: im.root(), Virtual: "hvm", Hypervisor: "xen", ENA: true, Created: wire.Stamp(im.Created),
		DeprecatedAt: wire.Stamp(im.Deprecated), Platform: im.platform(), Tags: tag.List(im.Tags)}
}

func (im *Image) isWindows() bool { return strings.HasPrefix(im.Family, "Windows") }

func (im *Image) root() string {
	if im.isWindows() {
		return "/dev/sda1"
	}
	return "/dev/xvda"
}

func (im *Image) platform() string {
	if im.isWindows() {
		return "Windows"
	}
	return wire.Linux
}

func (s *Images) ownerAlias(im *Image) string {
	if im.Owner == s.Cfg.AccountID {
		return "self"
	}
	return "amazon"
}

func (s *Images) DescribeImages(c *wire.Call) (any, error) {
	ids, owners, filters := c.Params.Strs("ImageId"), c.Params.Strs("Owner"), wire.ReadFilters(c.Params)
	for _, id := range ids {
		if !strings.HasPrefix(id, "ami-") {
			return nil, wire.Refuse("InvalidAMIID.Malformed", `Invalid id: "%s" (expecting "ami-...")`, id)
		}
		if s.ByID[id] == nil {
			return nil, wire.Refuse("InvalidAMIID.NotFound", "The image id '[%s]' does not exist", id)
		}
	}
	var found []*Image
	for _, im := range s.ByID {
		ok, err := wire.Matches(filters, im.Tags, s.imageAttributes(im))
		if err != nil {
			return nil, err
		}
		owned := len(owners) == 0 || slices.Contains(owners, im.Owner) || slices.Contains(owners, s.ownerAlias(im))
		fresh := im.Deprecated.After(s.Now()) || c.Params.Bool("IncludeDeprecated") || slices.Contains(ids, im.ID)
		if ok && owned && fresh && (len(ids) == 0 || slices.Contains(ids, im.ID)) {
			found = append(found, im)
		}
	}
	if c.Params.Bool("DryRun") {
		return nil, wire.DryRun()
	}
	slices.SortFunc(found, func(a, b *Image) int { return cmp.Compare(a.ID, b.ID) })
	part, next, err := wire.Page(c, found, func(im *Image) string { return im.ID }, wire.PageBounds{Least: 1, Most: 1000, Standard: 1000})
	if err != nil {
		return nil, err
	}
	answer := struct {
		Images []xmlImage `xml:"imagesSet>item"`
		Next   string     `xml:"nextToken,omitempty"`
	}{Next: next}
	for _, im := range part {
		answer.Images = append(answer.Images, s.xmlImage(im))
	}
	return answer, nil
}

func (s *Images) imageAttributes(im *Image) wire.Attributes {
	values := map[string]string{"image-id": im.ID, "name": im.Name, "architecture": im.Arch, "state": "available",
		"owner-id": im.Owner, "owner-alias": s.ownerAlias(im), "is-public": "true", "root-device-type": "ebs",
		"virtualization-type": "hvm", "image-type": "machine", "creation-date": wire.Stamp(im.Created), "ena-support": "true",
		"hypervisor": "xen", "description": im.Family + " image for EKS"}
	return func(name string) ([]string, bool) {
		value, ok := values[name]
		return []string{value}, ok
	}
}

// release publishes a newer release of all images, as AWS does every other week: the "recommended" and
// "latest" parameters move to it.
func (s *Images) release(r release) {
	for _, minor := range neighbours(s.Cfg.KubernetesVersion) {
		publish(s.ByID, s.parameters, minor, r, true)
	}
}

// Versions lists the dates of the AL2023 images, sorted.
func (s *Images) Versions() []string {
	dates := map[string]bool{}
	for _, im := range s.ByID {
		if im.Family == "AL2023" {
			dates["v"+im.Created.Format("20060102")] = true
		}
	}
	return slices.Sorted(maps.Keys(dates))
}
