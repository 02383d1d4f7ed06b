package fdbview

import "testing"

// The targets that the status left out are counted too.
func TestFew(t *testing.T) {
	for want, targets := range map[string][]string{
		"":                   nil,
		"a, b, c, d":         {"a", "b", "c", "d"},
		"a, b, c and 2 more": {"a", "b", "c", "d", "e"},
		"a, b, c and 9 more": {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "and 2 more"},
	} {
		if got := few(targets); got != want {
			t.Errorf("%v is %q, want %q", targets, got, want)
		}
	}
}
