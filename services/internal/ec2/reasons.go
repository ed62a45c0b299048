package ec2

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"

	"millwright/planner/ledger"
)

// launchReason maps what AWS says to a reason and message of the Launched condition (ec2 §4.6): the first
// entry all of whose texts occur in "code: message" wins.
type launchReason struct {
	contains []string
	reason   string
	message  string
}

var launchReasons = []launchReason{
	{[]string{codeSpotRoleForbidden}, "SpotSLRCreationFailed", "User doesn't have permission to create the Spot service-linked role"},
	{[]string{"Not authorized for images"}, "AMIAuthorizationFailure", "Not authorized to use the selected AMI"},
	{[]string{"UnauthorizedOperation", "permissions boundary"}, "Unauthorized", "Denied by a permissions boundary"},
	{[]string{"UnauthorizedOperation", "service control policy"}, "Unauthorized", "Denied by a service control policy"},
	{[]string{"UnauthorizedOperation"}, "Unauthorized", "Denied: no identity-based policy allows the call"},
	{[]string{"AccessDenied"}, "Unauthorized", "Denied: no identity-based policy allows the call"},
	{[]string{"OptInRequired"}, "OptInRequired", "Denied: " + regionDisabled},
	{[]string{"AuthFailure", "validate"}, "Unauthorized", "Denied: AWS was not able to validate the credentials; " + regionDisabled},
	{[]string{"AuthFailure"}, "Unauthorized", "Denied: AWS was not able to validate the credentials"},
	{[]string{"InvalidParameter", "belong to different networks"}, "SecurityGroupSubnetVPCMismatch", "Security group and subnet belong to different networks"},
	{[]string{"iamInstanceProfile.name is invalid"}, "InstanceProfileNameInvalid", "The instance profile's name is invalid"},
	{[]string{"InvalidLaunchTemplateId.NotFound"}, "LaunchTemplateNotFound", "The launch template does not exist"},
	{[]string{"User data is limited to"}, "UserDataSizeLimitExceeded", "User data is larger than 16 KiB"},
	{[]string{"InvalidAMIID.Malformed"}, "InvalidAMIID", "The AMI id is malformed"},
	{[]string{"InvalidAMIID.NotFound"}, "AMINotFound", "The AMI does not exist"},
	{[]string{"RequestLimitExceeded"}, "RequestLimitExceeded", "AWS limits the rate of requests"},
	{[]string{"InternalError"}, "InternalError", "AWS had an internal error"},
	{[]string{"not eligible for Free Tier"}, "FreeTierIneligible", "The instance type is not eligible for the account's Free Tier"},
	{[]string{"MaxFleetCountExceeded"}, "FleetQuotaExceeded", "The account's quota of fleets is used up"},
	{[]string{"PendingVerification"}, "AccountPendingVerification", "The account is still being verified for this Region"},
	{[]string{"MaxSpotInstanceCountExceeded"}, "SpotQuotaExceeded", "The account's quota of spot instances is used up"},
	{[]string{"VcpuLimitExceeded"}, "VCPULimitExceeded", "The account's quota of vCPUs is used up"},
	{[]string{codeNoAddresses}, "InsufficientFreeAddressesInSubnet", "The subnet has no free addresses"},
}

// launchFailed is the reason of what no other one is known for.
const launchFailed = "LaunchFailed"

// ReasonFor returns the condition reason and message for an AWS error code and text.
func ReasonFor(code, text string) (reason, message string) {
	full := code + ": " + text
	for _, r := range launchReasons {
		if containsAll(full, r.contains) {
			return r.reason, r.message
		}
	}
	return launchFailed, "Instance launch failed"
}

func containsAll(s string, texts []string) bool {
	return !slices.ContainsFunc(texts, func(t string) bool { return !strings.Contains(s, t) })
}

// FailureReason is what a code of EC2 or such a reason is called where failed offerings are counted: as in
// conditions, or the code itself if those have no name for it.
func FailureReason(code string) string {
	if reason, _ := ReasonFor(code, ""); reason != launchFailed {
		return reason
	}
	return code
}

// FailureOf turns the error of a call made for a launch into a Failure; nil stays nil. A Failure is returned
// unchanged. An unknown outcome remains one: it closes no attempt.
func FailureOf(err error) *Failure {
	if err == nil {
		return nil
	}
	if f, ok := errors.AsType[*Failure](err); ok {
		return f
	}
	if lack := lackOfCredentials(err); lack != nil {
		return &Failure{Class: Transient, Reason: "Unauthorized", Message: "There are no credentials to sign with: " + lack.text, Err: err}
	}
	code, text := "", Text(err)
	if api, ok := answerOf(err); ok {
		code, text = api.ErrorCode(), encodedText.ReplaceAllString(api.ErrorMessage(), "")
	}
	reason, message := ReasonFor(code, text)
	f := &Failure{Class: Classify(err), Reason: reason, Message: message + ": " + strings.TrimPrefix(code+": "+text, ": "), Err: err}
	if code == codeSpotRoleForbidden {
		f.Unavailable = []ledger.FailedOffering{spotForbidden}
	}
	if id := subnetPattern.FindString(text); code == codeNoAddresses && id != "" {
		f.Unavailable = []ledger.FailedOffering{{Code: code, SubnetID: id}}
	}
	return f
}

// subnetPattern finds the id in EC2's message about a subnet.
var subnetPattern = regexp.MustCompile(`subnet-[0-9a-f]+`)

// spotForbidden is all that is spot: without its service-linked role an account can have none of it.
var spotForbidden = ledger.FailedOffering{CapacityType: "spot", Code: codeSpotRoleForbidden}

// Failure returns nil if the fleet has an instance, otherwise why it has none: NoCapacity if every error says
// so, otherwise the reason of the first error that says something else.
func (r FleetResult) Failure() *Failure {
	if len(r.Instances) > 0 {
		return nil
	}
	return r.Shortfall()
}

// Shortfall says why the fleet launched fewer instances than it was asked for.
func (r FleetResult) Shortfall() *Failure {
	f := &Failure{Unavailable: r.Unavailable()}
	other := slices.IndexFunc(r.Errors, func(e FleetError) bool { return !e.lacksCapacity() })
	if other >= 0 {
		e := r.Errors[other]
		f.Reason, f.Message = ReasonFor(e.Code, e.Message)
		f.Message += ": " + e.String()
		f.Class = classifyAnswer(e.Code, e.Message, 0, false)
		return f
	}
	f.Class, f.Reason, f.Message = NoCapacity, "InsufficientCapacity", "with fleet error(s), "+r.errorText()
	if len(r.Errors) == 0 {
		f.Message = "the fleet launched no instance and gave no error"
	}
	if len(r.Errors) == 0 && len(r.Instances) > 0 { // what it has launched shows that there is capacity
		f.Class, f.Reason, f.Message = Transient, "LaunchFailed", "the fleet launched fewer instances than it was asked for and gave no error"
	}
	return f
}

// Unavailable lists the offerings EC2 had no capacity for and the subnets without free addresses, even if the
// fleet launched something, sorted and distinct.
func (r FleetResult) Unavailable() []ledger.FailedOffering {
	var failed []ledger.FailedOffering
	for _, e := range r.Errors {
		if e.Code == codeSpotRoleForbidden {
			failed = append(failed, spotForbidden)
			continue
		}
		if !e.lacksCapacity() || e.InstanceType == "" {
			continue
		}
		if e.groupFull() && e.Group != "" {
			group, _, _ := strings.Cut(e.Group, "/")
			failed = append(failed, ledger.FailedOffering{Zone: e.Zone, Code: e.Code, PlacementGroup: group})
			continue
		}
		if e.Code == codeNoAddresses && e.SubnetID != "" {
			failed = append(failed, ledger.FailedOffering{Zone: e.Zone, CapacityType: e.CapacityType, Code: e.Code, SubnetID: e.SubnetID})
			continue
		}
		failed = append(failed, ledger.FailedOffering{InstanceType: e.InstanceType, Zone: e.Zone, CapacityType: e.CapacityType, Code: e.Code, ReservationID: e.ReservationID, PlacementGroup: e.Group})
	}
	slices.SortFunc(failed, compareFailed)
	return slices.CompactFunc(failed, func(a, b ledger.FailedOffering) bool {
		return a.InstanceType == b.InstanceType && a.Zone == b.Zone && a.CapacityType == b.CapacityType && a.ReservationID == b.ReservationID && a.SubnetID == b.SubnetID &&
			a.PlacementGroup == b.PlacementGroup
	})
}

// Others are the offerings that the fleet failed to launch, but for those that are Unavailable: one for each
// error, with its reason for a code.
func (r FleetResult) Others() (failed []ledger.FailedOffering) {
	for _, e := range r.Errors {
		if e.Code == codeSpotRoleForbidden || e.lacksCapacity() && e.InstanceType != "" {
			continue
		}
		reason, _ := ReasonFor(e.Code, e.Message)
		failed = append(failed, ledger.FailedOffering{InstanceType: e.InstanceType, Zone: e.Zone, CapacityType: e.CapacityType, Code: reason})
	}
	return failed
}

// Refused is what failed where a request was refused as a whole, likewise: one, of no zone.
func Refused(in *awsec2.CreateFleetInput, err error) []ledger.FailedOffering {
	f := FailureOf(err)
	if len(f.Unavailable) > 0 {
		return nil
	}
	return []ledger.FailedOffering{{CapacityType: requestedCapacityType(in), Code: f.Reason}}
}

func compareFailed(a, b ledger.FailedOffering) int {
	key := func(f ledger.FailedOffering) string {
		return strings.Join([]string{f.InstanceType, f.Zone, f.CapacityType, f.ReservationID, f.SubnetID, f.PlacementGroup, f.Code}, "|")
	}
	return strings.Compare(key(a), key(b))
}

func (r FleetResult) errorText() string {
	var texts []string
	for _, e := range r.Errors {
		texts = append(texts, e.String())
	}
	slices.Sort(texts)
	return strings.Join(slices.Compact(texts), "; ")
}
