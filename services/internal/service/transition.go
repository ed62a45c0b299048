package service

import "fmt"

// Transition is the text of a KubeEvent that reports how a condition changed.
func Transition(kind, from, to, reason, message string) string {
	text := fmt.Sprintf("Status condition transitioned, Type: %s, Status: %s -> %s, Reason: %s", kind, from, to, reason)
	if message != "" {
		text += ", Message: " + message
	}
	return text
}
