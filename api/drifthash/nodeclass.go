package drifthash

import awsv1 "millwright/api/karpenteraws/v1"

// Versions of NodeClass.
const (
	NodeClassV4 = "v4"
	NodeClassV5 = "v5"
)

// NodeClass is the hash of an EC2NodeClass whose AMI family is resolved, by v4 or v5; "" for another version.
// caBundle is base64, empty if none is configured; v4 knows none. The tags `hash` in awsv1 say which fields
// do not count.
func NodeClass(version string, spec *awsv1.EC2NodeClassSpec, family, caBundle string) string {
	switch version {
	case NodeClassV4:
		return structural([]any{spec, family})
	case NodeClassV5:
		return structural([]any{spec, family, caBundle})
	}
	return ""
}
