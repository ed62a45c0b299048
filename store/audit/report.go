package audit

// Keys of what a leader publishes beside its key (store.Leadership.Report), for status commands.
const (
	ReportAt       = "at"       // RFC 3339 with milliseconds
	ReportFolded   = "folded"   // last record folded
	ReportStream   = "stream"   // incarnation folded
	ReportPosition = "position" // last message folded
	ReportAsOf     = "asOf"     // the watcher's last heartbeat that was folded
	ReportStop     = "stop"     // the level acted on
	ReportClock    = "clock"    // why the leader's clock cannot be relied on; absent while it can
)
