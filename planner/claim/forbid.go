package claim

// stoppedMoves create something, or end it or decide that it ends.
var stoppedMoves = map[Move]bool{
	Create: true, Launch: true, Resolve: true, Doom: true, Delete: true, DeleteNodes: true, Terminate: true,
}

// logMoves are pointless without a record: decisions, effects that must be recorded before, and mere records.
// The records that follow an effect (Register, Initialize, Confirm) are derived again from the facts once the
// log is back.
var logMoves = map[Move]bool{
	Adopt: true, Withdraw: true, Create: true, RecordCreated: true, Doom: true, Launch: true, Resolve: true, Close: true,
}

// forbidden reports that the move has to wait, for an operator or for the log; another one may proceed.
func (v view) forbidden(m Move) bool {
	return v.Stopped && stoppedMoves[m] || v.LogAway && logMoves[m]
}
