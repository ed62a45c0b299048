package events

import "time"

// Catalog is what EC2 offers to one EC2NodeClass: instance types with their labels, capacity and overhead,
// and in which zones they can be had. Prices are apart (see Prices), so that a price change does not
// move the catalogue. On the bus a Catalog travels as CatalogRef; the blob is named by its hash.
type Catalog struct {
	// NodeClass is the EC2NodeClass's name.
	NodeClass string `json:"nodeClass"`
	// Generation of the NodeClass the catalogue was computed for.
	Generation int64 `json:"generation"`
	// InstanceTypes by name.
	InstanceTypes []CatalogInstanceType `json:"instanceTypes"`
	// ReservationsAt is CatalogRef's, once the blob is resolved and folded; it is not in the blob.
	ReservationsAt time.Time `json:"reservationsAt,omitzero"`
	// ZonalShifts are CatalogRef's, likewise.
	ZonalShifts []ZonalShift `json:"zonalShifts,omitempty"`
}

// ZonalShift is a zone that traffic is shifted away from (Amazon Application Recovery Controller).
type ZonalShift struct {
	// ZoneID of the zone; Zone is its name, "" if no subnet is known there.
	ZoneID string `json:"zoneID"`
	Zone   string `json:"zone,omitempty"`
	// Until is when the shift ends unless it is cancelled or renewed; zero for one that AWS ends.
	Until time.Time `json:"until,omitzero"`
}

// CatalogRef is the message for a Catalog: Hash is the SHA-256, in hex, of the blob's bytes.
type CatalogRef struct {
	NodeClass string `json:"nodeClass"`
	Hash      string `json:"hash"`
	// ReservationsAt is when EC2 was asked how many instances of the capacity reservations are free; zero if
	// there are none. The reference is published again each time, with the same hash if nothing has changed.
	ReservationsAt time.Time `json:"reservationsAt,omitzero"`
	// ZonalShifts, by zone id, are why offerings in these zones are not available; nil if there are none.
	ZonalShifts []ZonalShift `json:"zonalShifts,omitempty"`
	// Catalog is set by whoever resolved the blob; it never travels.
	Catalog *Catalog `json:"-"`
	// packed is the blob of a reference from StoreCatalog, compressed; see StoreCatalogAgain.
	packed []byte
}

// CatalogInstanceType is one EC2 instance type as planners see it.
type CatalogInstanceType struct {
	Name string `json:"name"`
	// Requirements are the labels of the type: key to the sorted possible values; an empty list is
	// DoesNotExist.
	Requirements map[string][]string `json:"requirements"`
	// Others are requirements that no list of values expresses, such as Exists or Gt; EC2's catalogues have
	// none.
	Others []CatalogRequirement `json:"others,omitempty"`
	// Capacity and Overhead by resource name, cpu in millicores, all else in units or bytes. Overhead is
	// kubeReserved + systemReserved + evictionThreshold.
	Capacity map[string]int64 `json:"capacity"`
	Overhead map[string]int64 `json:"overhead"`
	// Offerings by zone, then capacity type.
	Offerings []CatalogOffering `json:"offerings"`
}

// CatalogRequirement of an instance type; operators as in NodePools.
type CatalogRequirement struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"`
	Values   []string `json:"values,omitempty"`
}

// CatalogOffering is a (zone, capacity type) a type can be had in, as far as EC2 and the NodeClass allow.
type CatalogOffering struct {
	Zone         string `json:"zone"`
	ZoneID       string `json:"zoneID,omitempty"`
	CapacityType string `json:"capacityType"`
	// Available: the type is offered in the zone, the NodeClass has a subnet there and can run the type.
	Available bool `json:"available"`
	// PlacementGroup is the id of the group that instances are launched into, Partition the number of one of
	// its partitions; "" and 0 without.
	PlacementGroup string `json:"placementGroup,omitempty"`
	Partition      int32  `json:"partition,omitempty"`
	// Reservation is set for capacity that is reserved.
	Reservation *CatalogReservation `json:"reservation,omitempty"`
}

// CatalogReservation is the capacity reservation behind an offering of capacity type reserved.
type CatalogReservation struct {
	ID string `json:"id,omitempty"`
	// Type: default or capacity-block; "" if unknown.
	Type string `json:"type,omitempty"`
	// Interruptible: its owner may take the instances back.
	Interruptible bool `json:"interruptible,omitempty"`
	// Free instances; nil means without limit. Of offerings that share an ID the least counts.
	Free *int64 `json:"free,omitempty"`
	// PicoUSDPerHour is the price in 1e-12 USD, for reserved capacity costs less than a micro USD. 0: a
	// ten-millionth of the on-demand price.
	PicoUSDPerHour int64 `json:"pricePico,omitempty"`
}

// Prices are differences: entries replace earlier ones of the same key, others stay.
type Prices struct {
	Entries []Price `json:"entries"`
}

// Price of an offering. Zone is "" for on-demand prices, which hold in every zone.
type Price struct {
	InstanceType string `json:"type"`
	CapacityType string `json:"capacityType"`
	Zone         string `json:"zone,omitempty"`
	// MicroUSDPerHour; 0 means the price is no longer known.
	MicroUSDPerHour int64 `json:"price"`
}

// InstanceState is an EC2 instance tagged as ours.
type InstanceState struct {
	ID           string    `json:"id"`
	State        string    `json:"state"`
	InstanceType string    `json:"type,omitempty"`
	Zone         string    `json:"zone,omitempty"`
	CapacityType string    `json:"capacityType,omitempty"`
	LaunchTime   time.Time `json:"launchTime,omitzero"`
	// Tags that matter: karpenter.sh/nodeclaim, karpenter.sh/nodepool, millwright.sh/launch.
	Tags map[string]string `json:"tags,omitempty"`
}

// Kinds of Interruption, as in label values of karpenter_interruption_received_messages_total and as reasons
// of ClaimDoomed.
const (
	SpotInterrupted                = "spot_interrupted"
	RebalanceRecommendation        = "rebalance_recommendation"
	ScheduledChange                = "scheduled_change"
	InstanceStopped                = "instance_stopped"
	InstanceTerminated             = "instance_terminated"
	CapacityReservationInterrupted = "capacity_reservation_interrupted"
	// InstanceStatus, SystemStatus and EventStatus come from the poll of instance status, not from the queue.
	// They hold until they are deleted.
	InstanceStatus = "instance_status"
	SystemStatus   = "system_status"
	EventStatus    = "event_status"
)

// InterruptionKinds are all of them; those that say most about when the instance ends come first.
var InterruptionKinds = []string{
	SpotInterrupted, CapacityReservationInterrupted, InstanceTerminated, InstanceStopped, InstanceStatus, SystemStatus, ScheduledChange, EventStatus,
	RebalanceRecommendation,
}

// Standing reports that an interruption is a state of the instance, which ends by a deletion, rather than a
// message.
func (i *Interruption) Standing() bool {
	return i.MessageKind == InstanceStatus || i.MessageKind == SystemStatus || i.MessageKind == EventStatus
}

// InterruptionName is the name of an Observation of kind Interruption, by which a standing one is deleted.
func InterruptionName(instance, kind string) string { return instance + "/" + kind }

// Interruption is a message about an instance from the interruption queue, or what the poll of its status
// found.
type Interruption struct {
	// MessageKind is one of InterruptionKinds.
	MessageKind string `json:"kind"`
	InstanceID  string `json:"instance"`
	// At is when AWS wrote the message, by its clock; ReceivedAt is when the watcher took it from the queue,
	// by its own.
	At         time.Time `json:"at"`
	ReceivedAt time.Time `json:"receivedAt,omitzero"`
	// Deadline is when the instance is taken away, on the watcher's clock; zero if the message says nothing
	// of it, or was received too late to tell.
	Deadline time.Time `json:"deadline,omitzero"`
	// NotBefore is when a scheduled event begins; zero if nobody says.
	NotBefore time.Time `json:"notBefore,omitzero"`
	// MessageID is the event's.
	MessageID string `json:"id,omitempty"`
	// Detail is the state, action or event code that the message names.
	Detail string `json:"detail,omitempty"`
	// Body is the message as it came, shortened. It stays on the stream: no World holds it.
	Body string `json:"body,omitempty"`
}
