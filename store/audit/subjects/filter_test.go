package subjects

import (
	"fmt"
	"testing"
)

// A filter has whatever was added to it, and little else.
func TestFilter(t *testing.T) {
	const n = 20_000
	for _, form := range []string{"pod/default/web-6d4cf56db6-%05x", "node/ip-10-0-%d.eu-west-1.compute.internal", "instance/i-%017x"} {
		f := newFilter(n)
		for i := range n {
			f.add(hashOf(fmt.Sprintf(form, i)))
		}
		wrong := 0
		for i := range 2 * n {
			switch had := f.mayHave(hashOf(fmt.Sprintf(form, i))); {
			case i < n && !had:
				t.Fatalf(form+" was added, and is not there", i)
			case i >= n && had:
				wrong++
			}
		}
		if wrong > n/30 {
			t.Errorf("%s: of %d that were not added %d may be there", form, n, wrong)
		}
	}
	if newFilter(0).mayHave(1) {
		t.Error("an empty filter has something")
	}
}
