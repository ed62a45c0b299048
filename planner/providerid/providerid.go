// Package providerid reads and writes the provider ids of Nodes and NodeClaims: aws:///<zone>/<instance id>.
package providerid

import (
	"fmt"
	"regexp"
	"strings"
)

// Of returns the id of an instance, as its Node carries it.
func Of(zone, instanceID string) string { return fmt.Sprintf("aws:///%s/%s", zone, instanceID) }

// InstanceID is the last part of an id, whatever precedes it: records and Nodes made by others may hold ids
// that nobody has checked.
func InstanceID(id string) string { return id[strings.LastIndex(id, "/")+1:] }

// Split returns both parts of an id of any provider; "" if it does not have that form.
func Split(id string) (zone, instanceID string) {
	_, rest, ok := strings.Cut(id, ":///")
	if !ok {
		return "", ""
	}
	at := strings.LastIndex(rest, "/")
	if at < 0 {
		return "", ""
	}
	return rest[:at], rest[at+1:]
}

var (
	form         = regexp.MustCompile(`^aws:///([^/]+)/(i-[0-9a-z]+)$`)
	instanceForm = regexp.MustCompile(`^i-[0-9a-z]+$`)
)

// IsInstanceID reports that EC2 could have made an instance id.
func IsInstanceID(id string) bool { return instanceForm.MatchString(id) }

// Parse is Split of an id that EC2 could have made; the error says what is wrong.
func Parse(id string) (zone, instanceID string, err error) {
	m := form.FindStringSubmatch(id)
	if m == nil {
		return "", "", fmt.Errorf("parse provider id %q: want aws:///<zone>/<instance id>", id)
	}
	return m[1], m[2], nil
}
