package fdb_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
)

func TestParseAddress(t *testing.T) {
	for _, test := range []struct {
		text    string
		want    fdb.Address
		written string // empty: as it was read
	}{
		{"10.1.38.94", fdb.Address{Host: "10.1.38.94"}, ""},
		{"10.1.38.94:4501", fdb.Address{Host: "10.1.38.94", Port: 4501}, ""},
		{"10.1.38.94:4500:tls", fdb.Address{Host: "10.1.38.94", Port: 4500, TLS: true}, ""},
		{"10.1.38.94:4500(fromHostname)", fdb.Address{Host: "10.1.38.94", Port: 4500, FromHostname: true}, ""},
		{"10.1.38.94:4500:tls(fromHostname)", fdb.Address{Host: "10.1.38.94", Port: 4500, TLS: true, FromHostname: true}, ""},
		{"[10.1.38.94]:4500", fdb.Address{Host: "10.1.38.94", Port: 4500}, "10.1.38.94:4500"}, // as the unified image writes it
		{"::1", fdb.Address{Host: "::1"}, ""},
		{"[::1]", fdb.Address{Host: "::1"}, "::1"},
		{"[10.1.38.94]:4501", fdb.Address{Host: "10.1.38.94", Port: 4501}, "10.1.38.94:4501"}, // as the launcher writes it
		{"[::1]:4501", fdb.Address{Host: "::1", Port: 4501}, ""},
		{"[::1]:4500:tls", fdb.Address{Host: "::1", Port: 4500, TLS: true}, ""},
		{"[2001:0DB8:85a3:0:0:8a2e:370:7334]:4800:tls(fromHostname)", fdb.Address{Host: "2001:db8:85a3::8a2e:370:7334", Port: 4800, TLS: true, FromHostname: true}, "[2001:db8:85a3::8a2e:370:7334]:4800:tls(fromHostname)"},
		{"::1:4500", fdb.Address{Host: "::1:4500"}, ""},
		{"sample-storage-1.sample.default.svc.cluster.local:4501", fdb.Address{Host: "sample-storage-1.sample.default.svc.cluster.local", Port: 4501}, ""},
		{"host_1.zone.:4500:tls", fdb.Address{Host: "host_1.zone.", Port: 4500, TLS: true}, ""},
		{"localhost", fdb.Address{Host: "localhost"}, ""},
		{"1.example:1", fdb.Address{Host: "1.example", Port: 1}, ""},
		{"a:65535", fdb.Address{Host: "a", Port: 65535}, ""},
	} {
		got, err := fdb.ParseAddress(test.text)
		if err != nil || got != test.want {
			t.Errorf("%q is %+v, with %v", test.text, got, err)
		}
		if test.written == "" {
			test.written = test.text
		}
		if got.String() != test.written {
			t.Errorf("%q is written as %q", test.text, got)
		}
	}
	for _, text := range []string{
		"", ":", ":4500", "10.1.38.94:", "10.1.38.94:0", "10.1.38.94:65536", "10.1.38.94:-1", "10.1.38.94:+1", "10.1.38.94:04500", "10.1.38.94:tls",
		"10.1.38.94:4500:TLS", "10.1.38.94:4500:tls:tls", "10.1.38.94:4500:foo", "10.1.38.94:4500 ", " 10.1.38.94:4500", "10.1.38.94:4500;kill",
		"10.1.38", "10.1.38.94.1:4500", "10.1.38.256:4500", "010.1.38.94:4500", "4500", "[::1", "::1]:4500", "[::1]4500", "[fe80::1%eth0]:4500",
		"a..b:4500", ".a:4500", "-a:4500", "a.-b", "a b", "a\nb:4500", `a"b`, "a'b", "a\\b", "a\x00b", "ä:4500", "$FDB_PUBLIC_IP:4500", "(fromHostname)", "a:1,b:1",
	} {
		if a, err := fdb.ParseAddress(text); fault.Of(err) != fdb.AddressInvalid {
			t.Errorf("%q is read as %+v, with %v", text, a, err)
		}
	}
}

func TestAddressParts(t *testing.T) {
	for _, test := range []struct{ text, machine, withoutFlags string }{
		{"10.1.38.94:4500:tls(fromHostname)", "10.1.38.94", "10.1.38.94:4500"},
		{"[::1]:4500:tls", "::1", "[::1]:4500"},
		{"::1", "::1", "::1"},
		{"a.b:4501", "a.b", "a.b:4501"},
	} {
		a, err := fdb.ParseAddress(test.text)
		if err != nil {
			t.Fatal(err)
		}
		if a.Machine() != test.machine || a.WithoutFlags() != test.withoutFlags {
			t.Errorf("%s has the machine %s, and without flags it is %s", test.text, a.Machine(), a.WithoutFlags())
		}
	}
}

func TestAddressJSON(t *testing.T) {
	type list struct {
		Addresses []fdb.Address `json:"addresses"`
	}
	text := `{"addresses":["[::1]:4500:tls","a:4501",""]}`
	var read list
	if err := json.Unmarshal([]byte(text), &read); err != nil {
		t.Fatal(err)
	}
	if written, err := json.Marshal(read); err != nil || string(written) != text {
		t.Errorf("written as %s, with %v", written, err)
	}
	if err := json.Unmarshal([]byte(`{"addresses":["a:b"]}`), &read); fault.Of(err) != fdb.AddressInvalid {
		t.Errorf("a wrong address gives %v", err)
	}
}

func TestAddressesOf(t *testing.T) {
	both := fdb.Required{TLS: true, NonTLS: true}
	for _, test := range []struct {
		host    string
		need    fdb.Required
		process int
		want    string
	}{
		{"10.1.38.94", fdb.Required{NonTLS: true}, 1, "[10.1.38.94:4501]"},
		{"10.1.38.94", fdb.Required{TLS: true}, 1, "[10.1.38.94:4500:tls]"},
		{"10.1.38.94", both, 1, "[10.1.38.94:4500:tls 10.1.38.94:4501]"},
		{"10.1.38.94", both, 2, "[10.1.38.94:4502:tls 10.1.38.94:4503]"},
		{"[::1]", both, 3, "[[::1]:4504:tls [::1]:4505]"},
		{"::1", fdb.Required{NonTLS: true}, 1, "[[::1]:4501]"},
		{"$FDB_PUBLIC_IP", both, 1, "[$FDB_PUBLIC_IP:4500:tls $FDB_PUBLIC_IP:4501]"},
		{"10.1.38.94", fdb.Required{}, 1, "[]"},
	} {
		if got := fmt.Sprint(fdb.AddressesOf(test.host, test.need, test.process)); got != test.want {
			t.Errorf("process %d on %s has %s, not %s", test.process, test.host, got, test.want)
		}
	}
}

func TestCommandLineAddresses(t *testing.T) {
	tls, plain := fdb.Address{Host: "10.1.38.94", Port: 4500, TLS: true}, fdb.Address{Host: "10.1.38.94", Port: 4501}
	for _, test := range []struct {
		commandLine string
		want        []fdb.Address
	}{
		{"/usr/bin/fdbserver --class=storage --public_address=10.1.38.94:4501 --seed_cluster_file=a", []fdb.Address{plain}},
		{"fdbserver --public_address=10.1.38.94:4500:tls,10.1.38.94:4501", []fdb.Address{tls, plain}},
		{"--public-address 10.1.38.94:4501", []fdb.Address{plain}},
		{"fdbserver -p 10.1.38.94:4500:tls -p 10.1.38.94:4501", []fdb.Address{tls, plain}},
		{"fdbserver --public_address=[::1]:4501", []fdb.Address{{Host: "::1", Port: 4501}}},
	} {
		got, err := fdb.CommandLineAddresses(test.commandLine)
		if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%q has %v, with %v", test.commandLine, got, err)
		}
	}
	for _, line := range []string{"", "fdbserver", "fdbserver --public_address=", "fdbserver --public_address=a:b", "fdbserver --public_address=10.1.38.94:4501,", "--locality_x--public_address=10.1.38.94:4501"} {
		if got, err := fdb.CommandLineAddresses(line); fault.Of(err) != fdb.AddressInvalid {
			t.Errorf("%q has %v, with %v", line, got, err)
		}
	}
}

// drawAddress draws an address with a port.
func drawAddress(t *rapid.T, label string) fdb.Address {
	return fdb.Address{
		Host: rapid.OneOf(
			rapid.StringMatching(`(([1-9]|[1-9][0-9]|1[0-9][0-9])\.){3}([0-9]|[1-9][0-9])`),
			rapid.SampledFrom([]string{"::1", "2001:db8::5", "fd00::ffff:1", "::ffff:10.1.2.3"}),
			rapid.StringMatching(`[a-z][a-z0-9-]{0,9}(\.[a-z][a-z0-9-]{0,9}){0,4}`),
		).Draw(t, label+" host"),
		Port: rapid.IntRange(1, 65535).Draw(t, label+" port"),
		TLS:  rapid.Bool().Draw(t, label+" tls"),
	}
}

func TestAddressRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawAddress(t, "address")
		a.FromHostname = rapid.Bool().Draw(t, "from hostname")
		if rapid.Bool().Draw(t, "without port") {
			a.Port, a.TLS = 0, false
		}
		read, err := fdb.ParseAddress(a.String())
		if err != nil || read != a {
			t.Fatalf("%+v is written as %s and read as %+v, with %v", a, a, read, err)
		}
		bare, err := fdb.ParseAddress(a.WithoutFlags())
		if want := (fdb.Address{Host: a.Host, Port: a.Port}); err != nil || bare != want {
			t.Fatalf("without flags %s is %+v, with %v", a.WithoutFlags(), bare, err)
		}
		host, err := fdb.ParseAddress(a.Machine())
		if want := (fdb.Address{Host: a.Host}); err != nil || host != want {
			t.Fatalf("the machine %s is %+v, with %v", a.Machine(), host, err)
		}
	})
}

func TestAddressesOfRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		need := fdb.Required{TLS: rapid.Bool().Draw(t, "tls"), NonTLS: rapid.Bool().Draw(t, "non-tls")}
		used := map[int]bool{}
		for process := 1; process <= rapid.IntRange(1, 8).Draw(t, "processes"); process++ {
			addresses := fdb.AddressesOf("10.1.2.3", need, process)
			line := "fdbserver --public_address="
			for i, a := range addresses {
				if used[a.Port] {
					t.Fatalf("the port %d is used twice", a.Port)
				}
				used[a.Port] = true
				if i > 0 {
					line += ","
				}
				line += a.String()
			}
			if len(addresses) == 0 {
				continue
			}
			read, err := fdb.CommandLineAddresses(line)
			if err != nil || !cmp.Equal(read, addresses) {
				t.Fatalf("%s is read as %v, with %v", line, read, err)
			}
		}
	})
}
