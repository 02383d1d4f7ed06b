// Package ordinal reads lists of ordinals, and counts the places of those that a set of pods has.
package ordinal

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// most bounds ranges of ordinals, so that a list of them stays small.
const most = 99_999

// Range reads "5", or "2-3": both ends included.
func Range(text string) (first, last int, err error) {
	from, to, isRange := strings.Cut(text, "-")
	if !isRange {
		to = from
	}
	first, isFirst := number(from)
	last, isLast := number(to)
	if !isFirst || !isLast || first > last || last > most {
		return 0, 0, fmt.Errorf("%q is no ordinal, such as \"5\", and no range, such as \"2-3\"", text)
	}
	return first, last, nil
}

// number reads digits without a sign.
func number(text string) (int, bool) {
	n, err := strconv.ParseUint(text, 10, 31)
	return int(n), err == nil //nolint:gosec // it has 31 bits
}

// List are the single ordinals of ranges, in the order in which they are named. What cannot be read is left
// out.
func List(ranges []string) []int {
	var all []int
	for _, text := range ranges {
		first, last, err := Range(text)
		if err != nil {
			continue
		}
		for o := first; o <= last; o++ {
			all = append(all, o)
		}
	}
	return all
}

// Set are the ordinals of the pods of a set: from the first one up, without those that are reserved.
type Set struct {
	First    int
	Reserved []string
}

// Place is how many ordinals of the set are lower.
func (s Set) Place(ordinal int) int {
	at := ordinal - s.First
	if len(s.Reserved) == 0 {
		return at
	}
	for _, r := range List(s.Reserved) {
		if r >= s.First && r < ordinal {
			at--
		}
	}
	return at
}

// Between are the ordinals with places from..to-1.
func (s Set) Between(from, to int) []int {
	var all []int
	reserved := List(s.Reserved)
	for o, at := s.First, 0; at < to; o++ {
		if slices.Contains(reserved, o) {
			continue
		}
		if at >= from {
			all = append(all, o)
		}
		at++
	}
	return all
}
