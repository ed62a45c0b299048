package events_test

import (
	"fmt"
	"time"

	"millwright/events"
)

// An Observation is encoded for the stream, and decoded by whoever folds it.
func ExampleEncode() {
	seen := events.Observation{Epoch: 3, Counter: 17, Kind: events.KindInstanceState, Op: events.OpUpsert,
		UID: "i-0123456789abcdef0", Name: "i-0123456789abcdef0", ObservedAt: time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC),
		Object: &events.InstanceState{ID: "i-0123456789abcdef0", State: "running", InstanceType: "m5.large", Zone: "us-west-2a"}}
	data, err := events.Encode(seen)
	if err != nil {
		fmt.Println(err)
		return
	}
	got, err := events.Decode(data)
	if err != nil {
		fmt.Println(err)
		return
	}
	i := got.Object.(*events.InstanceState)
	fmt.Println(got.Kind, got.Op, i.InstanceType, i.State)

	_, err = events.Decode(data[:len(data)/2])
	fmt.Println("half a message is refused:", err != nil)
	// Output:
	// InstanceState upsert m5.large running
	// half a message is refused: true
}
