package store

// Levels at which room is made.
const (
	// ArchiveEagerlyFrom is the level from which everything up to the newest checkpoint is archived (DESIGN §4).
	ArchiveEagerlyFrom = 0.5
	// OmitExplanationsFrom is the level from which new records keep only the hash of their explanation.
	OmitExplanationsFrom = 0.8
)

// Usage of the database that holds a log.
type Usage struct {
	// QuotaBytes is the size of the file at which the database takes no more writes.
	QuotaBytes int64
	// FileBytes is the size of the file; UsedBytes of them are in use, the rest is free for what comes.
	FileBytes, UsedBytes int64
	// NoSpace: the database refuses writes, since it was full.
	NoSpace bool
}

// Level is the used fraction of the quota.
func (u Usage) Level() float64 {
	if u.QuotaBytes == 0 {
		return 0
	}
	return float64(u.UsedBytes) / float64(u.QuotaBytes)
}
