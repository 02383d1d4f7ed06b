package fdb_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
)

func TestParseConnection(t *testing.T) {
	const plain = "sample_cluster:asdfasf@10.1.38.94:4501,[::1]:4500:tls,a.b.svc.cluster.local:4501"
	want := fdb.Connection{Description: "sample_cluster", ID: "asdfasf", Coordinators: []fdb.Address{
		{Host: "10.1.38.94", Port: 4501},
		{Host: "::1", Port: 4500, TLS: true},
		{Host: "a.b.svc.cluster.local", Port: 4501},
	}}
	for _, text := range []string{
		plain,
		plain + "\n",
		"\r\n\t " + plain + " \r\n\r\n",
		"# DO NOT EDIT!\n# This file is auto-generated, it is not to be edited by hand\n" + plain + "\n",
		plain + " # two in a zone\n#end",
	} {
		got, err := fdb.ParseConnection(text)
		if err != nil || !cmp.Equal(got, want) {
			t.Errorf("%q is %+v, with %v", text, got, err)
		}
		if got.String() != plain {
			t.Errorf("%q is written as %s", text, got)
		}
	}
	for _, text := range []string{
		"", "\n", "# only a comment", "a:b", "a@c:4500", "a:b@", "a:b@c", "a:b@c:4500,", "a:b@,c:4500", "a:b@c:4500,,d:4500",
		":b@c:4500", "a:@c:4500", "a-b:c@d:4500", "a:b_c@d:4500", "a:b:c@d:4500", "ä:b@c:4500",
		"a:b@c@d:4500", // flaw 6
		"a:b@c:4500@d:4500", "a:b@c:4500,d@e:4500", "a:b@c:4500\na:b@d:4500", "a:b@c:4500 d:4500", "a:b@c:4500, d:4500", "a : b@c:4500",
		"a:b@c:4500,c:4500", "a:b@[::1]:4500,[0:0::1]:4500", "a:b@10.1.38.94:4500(fromHostname)", "a:b@c:4500;", "a:b@c:4500\x00", "a:b@c:4500:tls:tls",
		"a:b@::1:4500", "a:b@[::1]", "a:b@c:0",
	} {
		if c, err := fdb.ParseConnection(text); fault.Of(err) != fdb.ConnectionInvalid {
			t.Errorf("%q is read as %+v, with %v", text, c, err)
		}
	}
}

func TestDescribe(t *testing.T) {
	for name, want := range map[string]string{
		"sample-cluster": "sample_cluster", "a": "a", "db.v2-x": "db_v2_x", "A9_": "A9_", "ä": "_",
	} {
		if got := fdb.Describe(name); got != want {
			t.Errorf("%q is described as %q", name, got)
		}
	}
}

func TestConnectionRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := fdb.Connection{
			Description: rapid.StringMatching(`[A-Za-z0-9_]{1,20}`).Draw(t, "description"),
			ID:          rapid.StringMatching(`[A-Za-z0-9]{1,32}`).Draw(t, "id"),
		}
		seen := map[fdb.Address]bool{}
		for range rapid.IntRange(1, 9).Draw(t, "coordinators") {
			if a := drawAddress(t, "coordinator"); !seen[a] {
				seen[a] = true
				c.Coordinators = append(c.Coordinators, a)
			}
		}
		read, err := fdb.ParseConnection(c.String())
		if err != nil || !cmp.Equal(read, c) {
			t.Fatalf("%s is read as %+v, with %v", c, read, err)
		}
		at := rapid.IntRange(0, len(c.String())).Draw(t, "at")
		broken := c.String()[:at] + rapid.SampledFrom([]string{"@", ";", " x", "\"", "\x00"}).Draw(t, "junk") + c.String()[at:]
		if at > 0 && at < len(c.String()) {
			if read, err := fdb.ParseConnection(broken); err == nil {
				t.Fatalf("%q is read as %+v", broken, read)
			}
		}
		name := rapid.StringMatching(`[a-z0-9]([a-z0-9.-]{0,20}[a-z0-9])?`).Draw(t, "name")
		described := fdb.Describe(name) + ":1@a:1"
		if _, err := fdb.ParseConnection(described); err != nil {
			t.Fatalf("%s: %v", described, err)
		}
	})
}

func FuzzParseConnection(f *testing.F) {
	for _, text := range []string{"a:b@10.1.2.3:4500", "#c\na:b@[::1]:4500:tls,c.d:1\n", "a:b@c@d:4500", "@", ":", "a:b@,", strings.Repeat("a:b@", 9)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := fdb.ParseConnection(text)
		if err != nil {
			if fault.Of(err) != fdb.ConnectionInvalid {
				t.Fatalf("the fault of %q is %v", text, err)
			}
			return
		}
		again, err := fdb.ParseConnection(c.String())
		if err != nil || !cmp.Equal(again, c) {
			t.Fatalf("%q is read as %+v, and that as %+v, with %v", text, c, again, err)
		}
	})
}

func FuzzParseAddress(f *testing.F) {
	for _, text := range []string{"10.1.2.3:4500:tls(fromHostname)", "[::1]:1", "::", "a.b:1", "[", "]", "[]:1", "%", "a%b:1", "::%1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := fdb.ParseAddress(text)
		if err != nil {
			if fault.Of(err) != fdb.AddressInvalid {
				t.Fatalf("the fault of %q is %v", text, err)
			}
			return
		}
		if again, err := fdb.ParseAddress(a.String()); err != nil || again != a {
			t.Fatalf("%q is read as %+v, and that as %+v, with %v", text, a, again, err)
		}
		if strings.ContainsAny(a.String(), " ;\"'\\\x00\n") {
			t.Fatalf("%q is an address", text)
		}
	})
}

func FuzzParseVersion(f *testing.F) {
	for _, text := range []string{"7.3.69", "7.4.0-rc1", "7.3.0-PRERELEASE", "v1.2.3.4", "1.2.-3", "7.1.0-rc99999999999"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := fdb.ParseVersion(text)
		if err != nil {
			return
		}
		if again, err := fdb.ParseVersion(v.String()); err != nil || again != v {
			t.Fatalf("%q is read as %+v, and that as %+v, with %v", text, v, again, err)
		}
	})
}

func FuzzCommandLineAddresses(f *testing.F) {
	for _, text := range []string{"fdbserver --public_address=10.1.2.3:4500:tls,10.1.2.3:4501", "-p a:1 -p", "--public-address", "--public_address=,"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		addresses, err := fdb.CommandLineAddresses(text)
		if (err == nil) != (len(addresses) > 0) {
			t.Fatalf("%q has %v, with %v", text, addresses, err)
		}
		line := "fdbserver"
		for _, a := range addresses {
			line += " --public_address=" + a.String()
		}
		if err != nil {
			return
		}
		if again, err := fdb.CommandLineAddresses(line); err != nil || !cmp.Equal(again, addresses) {
			t.Fatalf("%q is read as %v, and %q as %v, with %v", text, addresses, line, again, err)
		}
	})
}
