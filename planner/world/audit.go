package world

import (
	"slices"

	"millwright/events"
)

// Sums of the Kubernetes objects held, by kind's name; see events.Heartbeat.
func (w *World) Sums() map[string]events.Sum {
	sums := map[string]events.Sum{}
	var pods, nodes events.Sum
	for uid, r := range w.pods.byUID.All() {
		pods.AddIn(r.Namespace, r.Name, uid, r.ResourceVersion)
	}
	for name, r := range w.nodes.rows.All() {
		if r.known {
			nodes.Add(name, r.uid, r.version)
		}
	}
	sums[events.KindPod.String()], sums[events.KindNode.String()] = pods, nodes
	for kind, t := range w.tables() {
		sums[kind.String()] = t.sum()
	}
	for _, r := range w.unreadable.rows.All() { // it exists, and the watcher counts it
		sum := sums[r.value.Kind.String()]
		sum.Add(r.value.Name, r.uid, r.version)
		sums[r.value.Kind.String()] = sum
	}
	return sums
}

func (t *table[T]) sum() (sum events.Sum) {
	for name, r := range t.rows.All() {
		sum.Add(name, r.uid, r.version)
	}
	return sum
}

// audit compares the World with the sums of a heartbeat. If they differ, or a catalogue in force has no
// content because its blob was lost, the World is torn until the next complete resync. Kinds that either
// side does not know are skipped: watcher and reader may be of different versions.
func (w *World) audit(published map[string]events.Sum) {
	if len(published) == 0 || !w.synced || w.torn || w.resync.running {
		return
	}
	for kind, held := range w.Sums() {
		if said, ok := published[kind]; ok && said != held {
			w.drifted = append(w.drifted, kind)
		}
	}
	if w.lacksCatalog() {
		w.drifted = append(w.drifted, events.KindCatalog.String())
	}
	slices.Sort(w.drifted)
	w.torn = len(w.drifted) > 0
}

// Drifted names the kinds for which, at the last comparison, the World did not hold what the watcher had
// published; empty after a complete resync.
func (w *World) Drifted() []string { return w.drifted }
