package launch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// EncodeRequest returns the request as JSON, without what is not set. Equal requests give equal bytes, and
// DecodeRequest gives a request that is sent as the same bytes again.
func EncodeRequest(in *awsec2.CreateFleetInput) ([]byte, error) {
	full, err := json.Marshal(in)
	if err != nil {
		return nil, fmt.Errorf("encode fleet request: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(full))
	d.UseNumber()
	var tree any
	if err := d.Decode(&tree); err != nil {
		return nil, fmt.Errorf("encode fleet request: %w", err)
	}
	short, err := json.Marshal(withoutNulls(tree))
	if err != nil {
		return nil, fmt.Errorf("encode fleet request: %w", err)
	}
	return short, nil
}

// withoutNulls drops the fields that are null; encoding/json sorts the keys of what remains.
func withoutNulls(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if e == nil {
				delete(v, k)
				continue
			}
			v[k] = withoutNulls(e)
		}
	case []any:
		for i, e := range v {
			v[i] = withoutNulls(e)
		}
	}
	return v
}

// DecodeRequest reads a recorded request. It refuses fields it does not know: sending less than what was
// recorded would be another request under the same token.
func DecodeRequest(b []byte) (*awsec2.CreateFleetInput, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	var in awsec2.CreateFleetInput
	if err := d.Decode(&in); err != nil {
		return nil, fmt.Errorf("decode fleet request: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("decode fleet request: text after the end")
	}
	if aws.ToString(in.ClientToken) == "" {
		return nil, errors.New("decode fleet request: no client token")
	}
	if in.Type != ec2types.FleetTypeInstant {
		return nil, fmt.Errorf("decode fleet request: type %q is not instant", in.Type)
	}
	return &in, nil
}
