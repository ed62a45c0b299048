package version

// Differ calls fn for each key whose value is not the same in two Maps, in no particular order; the value is
// the zero value in the one that has none. Parts that both share are passed over: of two versions of a table
// it costs what was changed between them.
func Differ[K, V comparable](before, after *Map[K, V], fn func(k K, was, is V)) {
	differ(&before.root, &after.root, fn)
}

func differ[K, V comparable](before, after *child[K, V], fn func(k K, was, is V)) {
	switch {
	case before.inner == after.inner && before.leaf == after.leaf:
		return
	case before.inner != nil && after.inner != nil:
		for i := range before.inner.children {
			differ(&before.inner.children[i], &after.inner.children[i], fn)
		}
		return
	}
	was := map[K]V{} // few, unless one of the two has nothing in common with the other
	before.each(func(k K, v V) bool { was[k] = v; return true })
	after.each(func(k K, v V) bool {
		if old, ok := was[k]; !ok || old != v {
			fn(k, old, v)
		}
		delete(was, k)
		return true
	})
	var none V
	for k, v := range was {
		fn(k, v, none)
	}
}
