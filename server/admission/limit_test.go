package admission

import (
	"net/http/httptest"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// For random sequences: no key and no total exceeds its limit, only the oldest read of a
// key at its limit or of the key with the most is displaced, and nothing remains at the
// end.
func TestBodyReads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := newBodyReads(3, 6)
		var there []*bodyRead
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(there) > 0 && rapid.Bool().Draw(t, "leaves") {
				i := rapid.IntRange(0, len(there)-1).Draw(t, "which")
				if a.end(there[i]) != there[i].displaced {
					t.Fatal("it does not know whether it was displaced")
				}
				there = slices.Delete(there, i, i+1)
				continue
			}
			key := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key")
			all, own, cuts := a.all, len(a.byKey[key]), 0
			one := a.begin(key, func() { cuts++ })
			one.abort = func() { cuts++ }
			there = append(there, one)
			if one.displaced || len(a.byKey[key]) > 3 || a.all > 6 {
				t.Fatalf("%d of %s, %d in all", len(a.byKey[key]), key, a.all)
			}
			if displaced := a.all == all; displaced != (own == 3 || all == 6) {
				t.Fatalf("displaced: %v, with %d of its own and %d in all", displaced, own, all)
			}
		}
		for _, one := range there {
			a.end(one)
		}
		if a.all != 0 || len(a.byKey) != 0 {
			t.Fatalf("%d are left: %v", a.all, a.byKey)
		}
	})
}

func TestClientAddress(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.1:80": "192.0.2.1", "[::ffff:192.0.2.1]:80": "192.0.2.1", "[::1]:80": "::1", "[2001:db8::1]:80": "2001:db8::/64",
		"[2001:db8::ffff:1]:443": "2001:db8::/64", "[fe80::1%eth0]:80": "fe80::/64", "@": "@", "": "",
	} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
		r.RemoteAddr = remote
		if got := clientAddress(r); got != want {
			t.Errorf("%s: %s, want %s", remote, got, want)
		}
	}
}
