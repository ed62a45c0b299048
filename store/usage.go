package store

// Levels at which room is made.
const (
	// ArchiveEagerlyFrom is the level from which everything up to the newest checkpoint is archived (DESIGN
	// §4).
	ArchiveEagerlyFrom = 0.5
	// OmitExplanationsFrom is the level from which new records keep only the hash of their explanation.
	OmitExplanationsFrom = 0.8
)

// Usage of the database that holds a log.
type Usage struct {
	// QuotaBytes is the size of the file at which the database stops accepting writes.
	QuotaBytes int64
	// Assumed: the database does not report its quota, and QuotaBytes is a guess. It is reason enough to make
	// room, and not to write less.
	Assumed bool
	// FileBytes is the size of the file; UsedBytes of it are in use, the rest is free.
	FileBytes, UsedBytes int64
	// NoSpace: the database refuses writes, because it was full.
	NoSpace bool
}

// Full reports that nothing more is written: the alarm is raised, or the file has reached the quota, if that
// is known. An embedded etcd that refuses leases for want of room raises no alarm.
func (u Usage) Full() bool {
	return u.NoSpace || !u.Assumed && u.QuotaBytes > 0 && u.FileBytes >= u.QuotaBytes
}

// Level is the used fraction of the quota.
func (u Usage) Level() float64 {
	if u.QuotaBytes == 0 {
		return 0
	}
	return float64(u.UsedBytes) / float64(u.QuotaBytes)
}
