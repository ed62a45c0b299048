package jsontags_test

import (
	"slices"
	"testing"
	"time"

	"millwright/tools/archtest/jsontags"
)

type outer struct {
	Tagged   string `json:"tagged"`
	Bare     string
	OnlyOpts int `json:",omitempty"`
	Left     int `json:"-"`
	hidden   int
	embedded
	List []map[string]*inner `json:"list"`
	At   time.Time           `json:"at"`
	Text byText              `json:"text"`
}

type embedded struct{ Promoted bool }

type inner struct {
	Deep string
	Up   *outer `json:"up"`
}

type byText struct{ X, Y int }

func (byText) MarshalText() ([]byte, error) { return nil, nil }

func TestMissing(t *testing.T) {
	want := []string{"jsontags_test.embedded.Promoted", "jsontags_test.inner.Deep", "jsontags_test.outer.Bare", "jsontags_test.outer.OnlyOpts"}
	if got := jsontags.Missing(&outer{hidden: 1}); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := jsontags.Missing(byText{}, 7, "", []byte{}); len(got) > 0 {
		t.Errorf("got %v of types without fields that are encoded", got)
	}
}
