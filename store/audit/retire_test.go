package audit_test

import (
	"fmt"
	"strings"
	"testing"

	"millwright/planner/ledger"
	pt "millwright/planner/plannertest"
	"millwright/store"
	"millwright/store/audit"
	"millwright/store/memlog"
)

func TestRetirementDrafts(t *testing.T) {
	// ends of n nodes, one record each, from record 2 on.
	ends := func(n int) *ledger.Ledger {
		l := ledger.New(pt.LogID)
		for i := range n + 1 {
			e := ledger.Entry{Seq: uint64(i + 1), Kind: ledger.KindDrainEnded, Payload: &ledger.DrainEnded{}, Advances: []string{fmt.Sprintf("node/%05d", i)}}
			if i == 0 {
				e = ledger.Entry{Seq: 1, Kind: ledger.KindGenesis, Payload: &ledger.Genesis{LogID: pt.LogID}}
			}
			if err := l.Apply(e); err != nil {
				t.Fatal(err)
			}
		}
		return l
	}
	retires := func(l *ledger.Ledger, through uint64) string {
		drafts, err := audit.RetirementDrafts(l, through, 700)
		if err != nil {
			t.Fatal(err)
		}
		var list []string
		for _, d := range drafts {
			text := fmt.Sprint(len(d.Retires))
			if strings.Contains(string(d.Payload), `"shadow":true`) {
				text += " and shadow"
			}
			list = append(list, text)
			for _, name := range d.Retires {
				want(t, "expected", d.Expects[name], l.Aggregate(name))
			}
		}
		return strings.Join(list, ", ")
	}
	l := ends(2800)
	want(t, "all", retires(l, l.Seq()), "1000, 1000, 800")
	want(t, "what is as old", retires(l, 2600), "1000, 1000")
	want(t, "too few", retires(l, 700), "")
	want(t, "the most at a time", retires(ends(17000), 20000), strings.TrimSuffix(strings.Repeat("1000, ", 16), ", "))
	subject := []string{strings.Repeat("pod/default/a", 1<<17)}
	err := l.Apply(ledger.Entry{Seq: l.Seq() + 1, Mode: ledger.ModeShadow, Kind: ledger.KindProvisioningPlanned, Subjects: subject, Payload: &ledger.ProvisioningPlanned{}})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "much was said in shadow mode", retires(l, 700), "699 and shadow")

	log := memlog.New("test")
	if _, err := log.Append(t.Context(), store.Draft{Advances: []string{"node/00001"}}); err != nil {
		t.Fatal(err)
	}
	drafts, err := audit.RetirementDrafts(ends(1), 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	rec, err := log.Append(t.Context(), drafts[0])
	if err != nil {
		t.Fatal(err)
	}
	e, err := audit.Decode(rec)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "described", audit.Describe(e, pt.LogID), "of claims, commands and nodes that are no more, 1 aggregates are forgotten")
	want(t, "draft", e.Kind == ledger.KindAggregatesRetired && !e.Ignorable && e.Advances[0] == ledger.RetiredAggregate, true)
}
