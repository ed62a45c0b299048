package version

// Inner reports that the Map has more than one leaf.
func (m *Map[K, V]) Inner() bool { return m.root.inner != nil }
