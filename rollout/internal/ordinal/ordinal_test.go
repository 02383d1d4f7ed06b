package ordinal_test

import (
	"slices"
	"testing"

	"github.com/pawl-dev/pawl/rollout/internal/ordinal"
)

func TestRange(t *testing.T) {
	for _, test := range []struct {
		text        string
		first, last int
		fits        bool
	}{
		{"5", 5, 5, true},
		{"2-3", 2, 3, true},
		{"0-99999", 0, 99_999, true},
		{"3-2", 0, 0, false},
		{"", 0, 0, false},
		{"-1", 0, 0, false},
		{"+1", 0, 0, false},
		{"1-", 0, 0, false},
		{"1_0", 0, 0, false},
		{"0-100000", 0, 0, false},
		{"99999999999999999999", 0, 0, false},
	} {
		first, last, err := ordinal.Range(test.text)
		if first != test.first || last != test.last || (err == nil) != test.fits {
			t.Errorf("%q: %d to %d, %v", test.text, first, last, err)
		}
	}
}

func TestList(t *testing.T) {
	if got := ordinal.List([]string{"5", "x", "2-3"}); !slices.Equal(got, []int{5, 2, 3}) {
		t.Fatal(got)
	}
}

func TestPlaces(t *testing.T) {
	s := ordinal.Set{First: 2, Reserved: []string{"0", "3-4"}} // 2 5 6 7
	for place, o := range []int{2, 5, 6, 7} {
		if got := s.Place(o); got != place {
			t.Errorf("ordinal %d has place %d, not %d", o, got, place)
		}
	}
	if got := s.Between(1, 3); !slices.Equal(got, []int{5, 6}) {
		t.Error(got)
	}
	if got := s.Between(3, 3); got != nil {
		t.Error(got)
	}
}
