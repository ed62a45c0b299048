package ec2

import (
	"context"
	"encoding/base64"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// BootReport is what EC2 says about an instance that should have become a Node.
type BootReport struct {
	// State of the instance; "" if EC2 does not know it.
	State string
	// Checks that it fails: "system: reachability".
	Checks []string
	// Console holds the last lines of its console that report a failure; "" if none does, or if the console
	// may not be read.
	Console string
}

// BootReport asks for state, status checks and, where that is allowed, the console of an instance.
func (c *Client) BootReport(ctx context.Context, id string) (BootReport, error) {
	var r BootReport
	out, err := read(ctx, c, "ec2:DescribeInstanceStatus", with(c.ec2.DescribeInstanceStatus, &awsec2.DescribeInstanceStatusInput{
		InstanceIds: []string{id}, IncludeAllInstances: aws.Bool(true)}))
	if IsNotFound(err) {
		return r, nil
	}
	if err != nil {
		return r, err
	}
	for _, s := range out.InstanceStatuses {
		if s.InstanceState != nil {
			r.State = string(s.InstanceState.Name)
		}
		r.Checks = append(failedChecks("system", s.SystemStatus), failedChecks("instance", s.InstanceStatus)...)
	}
	if r.State == StateRunning {
		r.Console = c.console(ctx, id)
	}
	return r, nil
}

func failedChecks(of string, s *ec2types.InstanceStatusSummary) []string {
	if s == nil || s.Status != ec2types.SummaryStatusImpaired {
		return nil
	}
	var out []string
	for _, d := range s.Details {
		if d.Status == ec2types.StatusTypeFailed {
			out = append(out, fmt.Sprintf("%s: %s", of, d.Name))
		}
	}
	if len(out) == 0 {
		out = []string{of}
	}
	return out
}

// console is what can be read of the instance's console. It is a help and nothing more: who may not read it
// goes without.
func (c *Client) console(ctx context.Context, id string) string {
	in := &awsec2.GetConsoleOutputInput{InstanceId: aws.String(id), Latest: aws.Bool(true)}
	out, err := read(ctx, c, "ec2:GetConsoleOutput", with(c.ec2.GetConsoleOutput, in))
	if code := Code(err); code == "UnsupportedOperation" || code == "Unsupported" { // only nitro has the latest
		in.Latest = nil
		out, err = read(ctx, c, "ec2:GetConsoleOutput", with(c.ec2.GetConsoleOutput, in))
	}
	if err != nil {
		return ""
	}
	text, err := base64.StdEncoding.DecodeString(aws.ToString(out.Output))
	if err != nil {
		return ""
	}
	return failureLines(string(text))
}

const (
	failureLinesMax = 3
	failureLineMax  = 120
)

var (
	failureWords = regexp.MustCompile(`(?i)error|fail|denied|unauthorized|forbidden|refused|timed out|timeout|panic|unable|cannot|could not|no such host|expired`)
	escapes      = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]")
)

// failureLines are the last distinct lines of a console that speak of a failure, oldest first, without what
// terminals act upon.
func failureLines(console string) string {
	var found []string
	lines := strings.FieldsFunc(escapes.ReplaceAllString(console, ""), func(r rune) bool { return r == '\n' || r == '\r' })
	seen := map[string]bool{}
	for i := len(lines) - 1; i >= 0 && len(found) < failureLinesMax; i-- {
		line := strings.TrimSpace(strings.Map(printable, lines[i]))
		if !failureWords.MatchString(line) || seen[line] {
			continue
		}
		seen[line] = true
		if r := []rune(line); len(r) > failureLineMax {
			line = string(r[:failureLineMax]) + "..."
		}
		found = append([]string{line}, found...)
	}
	return strings.Join(found, " | ")
}

func printable(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return ' '
}
