package port

import "testing"

func TestDomain(t *testing.T) {
	keys := []string{"zone", "rack"}
	a := NewDomain(keys, map[string]string{"zone": "a", "rack": "7", "disk": "ssd"})
	if a != "zone=a,rack=7" || a.Value("zone") != "a" || a.Value("disk") != "" {
		t.Errorf("%q", a)
	}
	for other, want := range map[Domain]int{"zone=a,rack=7": 0, "zone=a,rack=8": 1, "zone=b,rack=8": 2, "zone=b": 1, "": 0} {
		if got := a.Apart(other); got != want {
			t.Errorf("%q and %q are apart in %d keys, want %d", a, other, got, want)
		}
	}
	if none := NewDomain(nil, nil); none != "" || none.Apart(a) != 0 {
		t.Errorf("%q", none)
	}
}
