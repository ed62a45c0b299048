// Package export hands what the log records to others: as CloudEvents over HTTP, as messages of a template
// to a webhook, and as OpenTelemetry spans.
//
// Guarantees: each record that is asked for is delivered at least once, with an id that is the same each
// time; how far each sink has come is kept beside the log (store.Cursors), written by the leader alone; a
// sink that is slow or away makes its own feed wait, and nothing else; at most windowMax records are held
// for each. A message is given up only if the sink takes another one and then refuses it again: it is
// counted, and its record named. Not guaranteed: that messages come only once, or in order where one was
// refused. It decides nothing and writes no record. Caller: cmd/millwright.
package export
