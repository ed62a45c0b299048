package preview

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/util/yaml"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/tools/millctl/sources"
)

// Objects are the objects of the input that are read.
type Objects struct {
	NodeClasses []*awsv1.EC2NodeClass
	NodeClaims  []*karpv1.NodeClaim
}

// Read reads manifests, YAML or JSON, each with one document or several; - is standard input. Other
// kinds are skipped.
func Read(paths []string, stdin io.Reader) (Objects, error) {
	var out Objects
	for _, path := range paths {
		in := io.NopCloser(stdin)
		if path != "-" {
			var err error
			if in, err = os.Open(path); err != nil {
				return Objects{}, fmt.Errorf("read manifests: %w", err)
			}
		}
		data, err := io.ReadAll(sources.AsUTF8(in))
		if err = errors.Join(err, in.Close()); err != nil {
			return Objects{}, fmt.Errorf("read manifests: %w", err)
		}
		if err := out.addManifest(data); err != nil {
			return Objects{}, fmt.Errorf("%s: %w", path, err)
		}
	}
	return out, nil
}

func (o *Objects) addManifest(data []byte) error {
	for d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096); ; {
		var raw rawObject
		if err := d.Decode(&raw); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("parse manifest: %w", err)
		}
		if err := o.addObject(raw); err != nil {
			return err
		}
	}
}

// rawObject keeps the JSON of a document.
type rawObject []byte

func (r *rawObject) UnmarshalJSON(data []byte) error {
	*r = bytes.Clone(data)
	return nil
}

func (o *Objects) addObject(raw rawObject) error {
	var head struct{ APIVersion, Kind string }
	if err := json.Unmarshal(raw, &head); err != nil || head.Kind == "" {
		return err
	}
	switch head.APIVersion + " " + head.Kind {
	case awsv1.Group + "/v1 EC2NodeClass":
		nc := &awsv1.EC2NodeClass{}
		if err := json.Unmarshal(raw, nc); err != nil {
			return err
		}
		if nc.Unreadable != "" {
			return fmt.Errorf("EC2NodeClass %s: %s", nc.Name, nc.Unreadable)
		}
		o.NodeClasses = append(o.NodeClasses, nc)
	case karpv1.Group + "/v1 NodeClaim":
		c := &karpv1.NodeClaim{}
		if err := json.Unmarshal(raw, c); err != nil {
			return err
		}
		if c.Unreadable != "" {
			return fmt.Errorf("NodeClaim %s: %s", c.Name, c.Unreadable)
		}
		o.NodeClaims = append(o.NodeClaims, c)
	case awsv1.Group + "/v1beta1 EC2NodeClass", karpv1.Group + "/v1beta1 NodeClaim":
		return fmt.Errorf("%s of %s is not understood: convert it with millctl convert --to v1", head.Kind, head.APIVersion)
	}
	return nil
}

// NodeClass is the only one of the input.
func (o Objects) NodeClass() (*awsv1.EC2NodeClass, error) {
	if len(o.NodeClasses) != 1 {
		return nil, fmt.Errorf("the input must have one EC2NodeClass, and has %d", len(o.NodeClasses))
	}
	return o.NodeClasses[0], nil
}

// NodeClaim is the only one of the input.
func (o Objects) NodeClaim() (*karpv1.NodeClaim, error) {
	if len(o.NodeClaims) != 1 {
		return nil, fmt.Errorf("the input must have one NodeClaim, and has %d", len(o.NodeClaims))
	}
	return o.NodeClaims[0], nil
}
