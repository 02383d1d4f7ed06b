package fdb

import "testing"

func TestProcessAt(t *testing.T) {
	p := Process{
		Address:     Address{Host: "10.0.0.1", Port: 4500, TLS: true},
		CommandLine: "/usr/bin/fdbserver --public_address=10.0.0.1:4500:tls,10.0.0.1:4501 --class=storage",
		Locality:    map[string]string{DNSNameLocality: "s-1.local"},
	}
	v6 := Process{CommandLine: "fdbserver --public_address=[FD00:0:0::1]:4501"}
	for _, c := range []struct {
		p           Process
		address     string
		at, listens bool
	}{
		{p, "10.0.0.1:4500:tls", true, true},
		{p, "10.0.0.1:4500", false, true},
		{p, "10.0.0.1:4501", true, true},
		{p, "10.0.0.1:4501:tls", false, true},
		{p, "10.0.0.1:4502", false, false},
		{p, "10.0.0.1", false, true},
		{p, "10.0.0.10:4501", false, false},
		{p, "10.0.0.1:4501(fromHostname)", true, true},
		{p, "s-1.local:4501", true, true},
		{p, "S-1.local:4500:tls", true, true},
		{p, "s-1.local:4503", false, false},
		{p, "s-1.local", false, true},
		{p, "s-2.local:4501", false, false},
		{v6, "[fd00::1]:4501", true, true},
		{v6, "[fd00::2]:4501", false, false},
		{v6, "fd00::1", false, true},
		{Process{}, "10.0.0.1:4501", false, false},
	} {
		a, err := ParseAddress(c.address)
		if err != nil {
			t.Fatal(err)
		}
		if at, listens := c.p.at(a), c.p.listens(a); at != c.at || listens != c.listens {
			t.Errorf("%s: at %t, listens %t", c.address, at, listens)
		}
	}
	if p.at(Address{}) || p.listens(Address{}) || (Process{}).listens(Address{Port: 1}) {
		t.Error("a process listens on no address")
	}
	if a, ok := p.addressOf(false); !ok || a.String() != "10.0.0.1:4501" {
		t.Errorf("without TLS: %s", a)
	}
	if a, ok := v6.addressOf(true); ok {
		t.Errorf("with TLS: %s", a)
	}
}

func TestProcessDNSName(t *testing.T) {
	for locality, want := range map[string]string{"s-1.local": "s-1.local", "": "", "$FDB_DNS_NAME": ""} {
		p := Process{Locality: map[string]string{DNSNameLocality: locality}}
		if got := p.DNSName(); got != want {
			t.Errorf("%q: %q, want %q", locality, got, want)
		}
	}
}
