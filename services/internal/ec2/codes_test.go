package ec2

import (
	"testing"
)

// TestEveryCodeOfTheReferenceHasItsReaction: what a fleet error with the code makes of a launch that got no
// instance, and whether the offering that was asked for is marked (ec2 §4.6). One error of another kind
// beside those of no capacity gives the reason.
func TestEveryCodeOfTheReferenceHasItsReaction(t *testing.T) {
	for name, c := range map[string]struct {
		code, message string
		class         Class
		reason        string
		marks         int
	}{
		"no instances left":        {"InsufficientInstanceCapacity", "no", NoCapacity, "InsufficientCapacity", 1},
		"quota of spot":            {"MaxSpotInstanceCountExceeded", "no", NoCapacity, "InsufficientCapacity", 1},
		"quota of vCPUs":           {"VcpuLimitExceeded", "no", NoCapacity, "InsufficientCapacity", 1},
		"pool is empty":            {"UnfulfillableCapacity", "no", NoCapacity, "InsufficientCapacity", 1},
		"type not in the zone":     {"Unsupported", "no", NoCapacity, "InsufficientCapacity", 1},
		"subnet is full":           {codeNoAddresses, "subnet-1", NoCapacity, "InsufficientCapacity", 1},
		"reservation is full":      {"ReservationCapacityExceeded", "no", NoCapacity, "InsufficientCapacity", 1},
		"quota of fleets":          {"MaxFleetCountExceeded", "no", NoCapacity, "InsufficientCapacity", 1},
		"no role for spot":         {codeSpotRoleForbidden, "no", NoCapacity, "InsufficientCapacity", 1},
		"image of others":          {"AuthFailure", "Not authorized for images: [ami-1]", Permanent, "AMIAuthorizationFailure", 0},
		"forbidden":                {"UnauthorizedOperation", "You are not authorized", Permanent, "Unauthorized", 0},
		"access denied":            {"AccessDenied", "no", Permanent, "Unauthorized", 0},
		"credentials":              {"AuthFailure", "AWS was not able to validate", Permanent, "Unauthorized", 0},
		"region not enabled":       {"OptInRequired", "You are not subscribed to this service.", Permanent, "OptInRequired", 0},
		"groups of another VPC":    {"InvalidParameter", "Security group sg-1 and subnet subnet-1 belong to different networks.", Permanent, "SecurityGroupSubnetVPCMismatch", 0},
		"profile not yet known":    {"InvalidParameterValue", "Value (p) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name", Transient, "InstanceProfileNameInvalid", 0},
		"template is gone":         {"InvalidLaunchTemplateId.NotFound", "no", NotFound, "LaunchTemplateNotFound", 0},
		"too much user data":       {"InvalidUserData.Malformed", "User data is limited to 16384 bytes", Permanent, "UserDataSizeLimitExceeded", 0},
		"malformed image":          {"InvalidAMIID.Malformed", "no", Permanent, "InvalidAMIID", 0},
		"unknown image":            {"InvalidAMIID.NotFound", "no", Permanent, "AMINotFound", 0},
		"too many calls":           {"RequestLimitExceeded", "no", Transient, "RequestLimitExceeded", 0},
		"EC2 fails":                {"InternalError", "no", Transient, "InternalError", 0},
		"not in the Free Tier":     {"InvalidParameterCombination", "The specified instance type is not eligible for Free Tier.", Permanent, "FreeTierIneligible", 0},
		"account under inspection": {"PendingVerification", "no", Permanent, "AccountPendingVerification", 0},
		"interfaces beyond a type": {"AttachmentLimitExceeded", "Interface count 5 exceeds the limit", Permanent, "LaunchFailed", 0},
		"not said anywhere":        {"Novelty", "no", Permanent, "LaunchFailed", 0},
	} {
		t.Run(name, func(t *testing.T) {
			e := FleetError{Code: c.code, Message: c.message, InstanceType: "m5.large", Zone: "a", CapacityType: "spot", SubnetID: "subnet-1"}
			f := FleetResult{Errors: []FleetError{e}}.Failure()
			if f.Class != c.class || f.Reason != c.reason || len(f.Unavailable) != c.marks {
				t.Errorf("%s, %s, marks %v; want %s, %s and %d", f.Class, f.Reason, f.Unavailable, c.class, c.reason, c.marks)
			}
			dry := FleetError{Code: "InsufficientInstanceCapacity", InstanceType: "c5.large", Zone: "a", CapacityType: "spot"}
			f = FleetResult{Errors: []FleetError{dry, e}}.Failure()
			if f.Class != c.class || f.Reason != c.reason || len(f.Unavailable) != c.marks+1 {
				t.Errorf("beside no capacity: %s, %s, marks %v", f.Class, f.Reason, f.Unavailable)
			}
		})
	}
}
