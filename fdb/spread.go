package fdb

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/fault"
)

// TooFewCandidates is returned when the candidates do not suffice within the limits.
var TooFewCandidates = fault.Declare(fault.Kind{
	Code: "FDB_TOO_FEW_CANDIDATES", Class: fault.Blocked,
	Title:  "too few processes in different fault domains",
	Remedy: "Add processes of an eligible class in zones that have none yet, or wait until those that are down or excluded come back.",
	Guide:  "foundationdb.md#if-it-does-not-go-on",
})

// Candidate is a process that can be selected.
type Candidate struct {
	ID       string            `json:"id"` // of its group; one process of a group is selected
	Address  Address           `json:"address,omitzero"`
	Class    Class             `json:"class,omitempty"`
	Locality map[string]string `json:"locality,omitempty"`
	Priority int               `json:"priority,omitempty"` // the highest first
}

// Spread selects count candidates so that they share as few values of the given localities as
// possible: each time one whose value of the first field was selected least, then of the second, and
// so on, then the one with the highest priority, then the first by id. limits bounds how many share
// one value of a locality; a locality that a candidate lacks counts as the empty value. Without
// fields these are zoneid and dcid.
//
// It returns TooFewCandidates, and no candidates, when the limits leave too few.
func Spread(candidates []Candidate, count int, fields []string, limits map[string]int) ([]Candidate, error) {
	if len(fields) == 0 {
		fields = []string{ZoneLocality, DatacenterLocality}
	}
	left := newUsage(candidates, fields, limits)
	var selected []Candidate
	for len(selected) < count {
		best := left.best()
		if best < 0 {
			return nil, TooFewCandidates.Errorf("only %d of %d could be selected from %d candidates, with at most %s",
				len(selected), count, len(candidates), limitText(limits)).With("selected", len(selected)).With("wanted", count)
		}
		selected = append(selected, left.take(best))
	}
	return selected, nil
}

// usage counts the selected candidates by value of each locality.
type usage struct {
	left   []Candidate // in the order of preference
	taken  []bool
	fields []string
	limits []int   // by field
	values [][]int // by candidate and field: the number of the value
	counts [][]int // by field and value: how many were selected
}

func newUsage(candidates []Candidate, fields []string, limits map[string]int) *usage {
	u := &usage{left: slices.Clone(candidates), taken: make([]bool, len(candidates)), fields: slices.Clone(fields)}
	slices.SortStableFunc(u.left, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.ID, b.ID))
	})
	for _, field := range slices.Sorted(maps.Keys(limits)) {
		if !slices.Contains(u.fields, field) {
			u.fields = append(u.fields, field)
		}
	}
	for _, field := range u.fields {
		most, limited := limits[field]
		if !limited {
			most = len(candidates)
		}
		u.limits = append(u.limits, most)
	}
	numbers := make([]map[string]int, len(u.fields))
	for i := range numbers {
		numbers[i] = map[string]int{}
	}
	u.counts = make([][]int, len(u.fields))
	for _, c := range u.left {
		row := make([]int, len(u.fields))
		for i, field := range u.fields {
			n, known := numbers[i][c.Locality[field]]
			if !known {
				n = len(numbers[i])
				numbers[i][c.Locality[field]] = n
				u.counts[i] = append(u.counts[i], 0)
			}
			row[i] = n
		}
		u.values = append(u.values, row)
	}
	return u
}

// best returns the candidate to take next; -1 if the limits leave none.
func (u *usage) best() int {
	best := -1
	for i := range u.left {
		if !u.taken[i] && u.within(i) && (best < 0 || u.less(i, best)) {
			best = i
		}
	}
	return best
}

func (u *usage) within(i int) bool {
	for f, value := range u.values[i] {
		if u.counts[f][value] >= u.limits[f] {
			return false
		}
	}
	return true
}

func (u *usage) less(i, j int) bool {
	for f := range u.fields {
		if d := u.counts[f][u.values[i][f]] - u.counts[f][u.values[j][f]]; d != 0 {
			return d < 0
		}
	}
	return false
}

// take selects a candidate and drops the others of its group.
func (u *usage) take(i int) Candidate {
	for f, value := range u.values[i] {
		u.counts[f][value]++
	}
	for j, c := range u.left {
		u.taken[j] = u.taken[j] || j == i || c.ID != "" && c.ID == u.left[i].ID
	}
	return u.left[i]
}

func limitText(limits map[string]int) string {
	if len(limits) == 0 {
		return "any number in one place"
	}
	var parts []string
	for _, field := range slices.Sorted(maps.Keys(limits)) {
		parts = append(parts, fmt.Sprintf("%d in one %s", limits[field], field))
	}
	return strings.Join(parts, " and ")
}
