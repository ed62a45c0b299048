package queue

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"millwright/events"
	"millwright/planner/providerid"
)

// noOp is the kind of messages that say nothing of interest, as in metrics.
const noOp = "no_op"

const (
	// noticeTime is how long before it takes an instance back EC2 says so.
	noticeTime = 2 * time.Minute
	// bodyMax bounds what is kept of a message; detailMax and idMax what is kept of its parts.
	bodyMax   = 2 << 10
	detailMax = 100
	idMax     = 64
)

// envelope is an EventBridge event.
type envelope struct {
	Version    string          `json:"version"`
	ID         string          `json:"id"`
	Source     string          `json:"source"`
	DetailType string          `json:"detail-type"`
	Time       time.Time       `json:"time"`
	Detail     json.RawMessage `json:"detail"`
}

// detail of all the events that are read; each has some of it.
type detail struct {
	InstanceID        string `json:"instance-id"`
	InstanceAction    string `json:"instance-action"`
	State             string `json:"state"`
	Service           string `json:"service"`
	EventTypeCode     string `json:"eventTypeCode"`
	EventTypeCategory string `json:"eventTypeCategory"`
	AffectedEntities  []struct {
		EntityValue string `json:"entityValue"`
	} `json:"affectedEntities"`
}

var (
	errEmpty    = errors.New("empty body")
	errInstance = errors.New("names no instance")
	errTime     = errors.New("time is out of range")
)

func isInstance(id string) bool { return len(id) <= idMax && providerid.IsInstanceID(id) }

// parse reads a message (reference: disruption §8). What is no instance in a list of them is left out. kind
// is noOp for one that says nothing of interest. An error: nobody can read it.
func parse(body string) (kind string, about []events.Interruption, err error) {
	if body == "" {
		return noOp, nil, errEmpty
	}
	var e envelope
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		return noOp, nil, fmt.Errorf("decode event: %w", err)
	}
	if e.Version != "0" || !slices.Contains(detailTypes, [2]string{e.Source, e.DetailType}) {
		return noOp, nil, nil
	}
	if year := e.Time.UTC().Year(); year < 1 || year > 9999 {
		return noOp, nil, fmt.Errorf("%s: %w", e.DetailType, errTime) // it could not be published
	}
	var d detail
	if err := json.Unmarshal(e.Detail, &d); err != nil {
		return noOp, nil, fmt.Errorf("decode detail of %s: %w", e.DetailType, err)
	}
	kind, text := d.kind(e.DetailType)
	if kind == noOp {
		return noOp, nil, nil
	}
	ids := []string{d.InstanceID}
	if kind == events.ScheduledChange {
		ids = ids[:0]
		for _, entity := range d.AffectedEntities { // as many as a message of SQS has room for
			ids = append(ids, entity.EntityValue)
		}
	}
	var strange string
	for _, id := range ids {
		if !isInstance(id) {
			strange = id
			continue
		}
		about = append(about, events.Interruption{MessageKind: kind, InstanceID: id, At: e.Time.UTC(), MessageID: cut(e.ID, idMax),
			Detail: cut(text, detailMax), Body: cut(body, bodyMax)})
	}
	switch {
	case len(about) == 0 && len(ids) > 0:
		return noOp, nil, fmt.Errorf("%s: %q: %w", e.DetailType, cut(strange, idMax), errInstance)
	case len(about) == 0:
		return noOp, nil, nil
	}
	return kind, about, nil
}

const (
	spotWarning        = "EC2 Spot Instance Interruption Warning"
	rebalance          = "EC2 Instance Rebalance Recommendation"
	stateChange        = "EC2 Instance State-change Notification"
	reservationWarning = "EC2 Capacity Reservation Instance Interruption Warning"
	health             = "AWS Health Event"
)

// detailTypes that are read, with their sources.
var detailTypes = [][2]string{
	{"aws.ec2", spotWarning}, {"aws.ec2", rebalance}, {"aws.ec2", stateChange}, {"aws.ec2", reservationWarning}, {"aws.health", health},
}

// kind of a message, and what to keep of its detail.
func (d *detail) kind(detailType string) (kind, text string) {
	switch detailType {
	case spotWarning:
		return events.SpotInterrupted, d.InstanceAction
	case rebalance:
		return events.RebalanceRecommendation, ""
	case reservationWarning:
		return events.CapacityReservationInterrupted, d.InstanceAction
	case health:
		if d.Service == "EC2" && d.EventTypeCategory == "scheduledChange" {
			return events.ScheduledChange, d.EventTypeCode
		}
	case stateChange:
		switch d.State {
		case "stopping", "stopped":
			return events.InstanceStopped, d.State
		case "shutting-down", "terminated":
			return events.InstanceTerminated, d.State
		}
	}
	return noOp, ""
}

// receive says when a message was taken from the queue, and by when the instance is gone. serverNow is SQS's
// clock, now the process's: the age of a message is measured by AWS's clocks alone, for ours may be off. One
// that is older than its notice sets no deadline: that time has passed, and force has nothing to win any
// more.
func receive(i *events.Interruption, serverNow, now time.Time) (age time.Duration) {
	if i.At.IsZero() {
		i.At = serverNow.UTC()
	}
	i.ReceivedAt = now.UTC()
	age = max(0, serverNow.Sub(i.At))
	if i.MessageKind != events.SpotInterrupted && i.MessageKind != events.CapacityReservationInterrupted {
		return age
	}
	if left := noticeTime - age; left > 0 {
		i.Deadline = i.ReceivedAt.Add(left)
	}
	return age
}

// cut shortens a text to so many bytes, at a character.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && text[most]&0xC0 == 0x80 {
		most--
	}
	return text[:most]
}
