package claim

import (
	"fmt"
	"strings"
)

// Boot is what EC2 said about an instance whose Node does not come.
type Boot struct {
	InstanceID string `json:"instanceID"`
	// State of the instance.
	State string `json:"state,omitempty"`
	// Checks are EC2's status checks that it fails.
	Checks []string `json:"checks,omitempty"`
	// Console is the last of what it wrote there that reports a failure; empty if nothing does, or if it may
	// not be read.
	Console string `json:"console,omitempty"`
}

const stateRunning = "running"

// text says as much as is known of why the Node does not come; empty for nil.
func (b *Boot) text() string {
	switch {
	case b == nil:
		return ""
	case b.State != stateRunning:
		return fmt.Sprintf("instance %s is %s", b.InstanceID, orElse(b.State, "not known to EC2"))
	case len(b.Checks) > 0:
		return fmt.Sprintf("instance %s runs and fails EC2's status checks: %s%s", b.InstanceID, strings.Join(b.Checks, ", "), b.consoleText())
	case b.Console != "":
		return fmt.Sprintf("instance %s runs%s", b.InstanceID, b.consoleText())
	}
	return fmt.Sprintf("instance %s runs and passes EC2's status checks, and no Node has its provider id: kubelet did not start, does not reach the cluster's endpoint, "+
		"or its role may not join the cluster", b.InstanceID)
}

func (b *Boot) consoleText() string {
	if b.Console == "" {
		return ""
	}
	return ", and its console says: " + b.Console
}

// unregisteredText is the message of a condition that waits for the Node.
func (b *Boot) unregisteredText() string {
	if b == nil {
		return messageNodeNotFound
	}
	return cut(messageNodeNotFound + ": " + b.text())
}

func (v view) bootText() string { return cut(v.Boot.text()) }
