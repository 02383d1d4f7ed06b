package fdb_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
)

var words = []fdb.Word{fdb.WordAddress, fdb.WordLocality, fdb.WordZone, fdb.WordTag, fdb.WordKey, fdb.WordDatacenter, fdb.WordWiggle}

func TestCheckWord(t *testing.T) {
	for _, test := range []struct {
		form    fdb.Word
		good    []string
		refused []string
	}{
		{fdb.WordAddress, []string{"10.1.2.3", "[::1]:4500:tls", "a.b:4501"}, []string{"", "a:b", "a:1 b:1", "a:1;kill"}},
		{fdb.WordLocality, []string{"locality_instance_id:dc1-storage-7", "dcid:dc1", "locality_zoneid:rack/3.a"}, []string{"", "a", ":a", "a:", "a:b:c", "a-b:c", "a:*"}},
		{fdb.WordZone, []string{"node-1.example.org", "kc1", "a:b/c"}, []string{"", "a*", "zone 1"}},
		{fdb.WordTag, []string{"default", "restore-1a2b3c4d", strings.Repeat("a", 64)}, []string{"", "-t", strings.Repeat("a", 65), "a=b"}},
		{fdb.WordKey, []string{"a", "app/table-1", `\x00`, `a\xFFb`, "A_b.c"}, []string{"", `\`, `\x0`, `\xgg`, `a\y`, `a\\b`, "a{", "ä"}},
		{fdb.WordDatacenter, []string{"dc1", "eu-west/1"}, []string{"", "dc,1", "dc{1}"}},
		{fdb.WordWiggle, []string{"0", "zoneid:pv47-1108", "machineid:a.b"}, []string{"", "1", "a:b;c:d", "a"}},
		{"unknown", nil, []string{"a"}},
	} {
		for _, text := range test.good {
			if err := fdb.CheckWord(test.form, text); err != nil {
				t.Errorf("%s %q: %v", test.form, text, err)
			}
		}
		for _, text := range test.refused {
			if err := fdb.CheckWord(test.form, text); fault.Of(err) != fdb.WordInvalid {
				t.Errorf("%s %q is refused with %v", test.form, text, err)
			}
		}
	}
}

// Flaw 21: no value of the spec becomes a second command. Whatever a form lets through stays one
// word of fdbcli.
func TestWordRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		form := rapid.SampledFrom(words).Draw(t, "form")
		text := rapid.OneOf(
			rapid.String(),
			rapid.StringMatching(`[a-z0-9_.:/-]{1,8}[ ;"'\\\n\t\x00]?[a-z0-9:]{0,8}`),
			rapid.StringMatching(`[a-z_]{1,8}:[a-z0-9]{1,8}`),
		).Draw(t, "text")
		if fdb.CheckWord(form, text) != nil {
			return
		}
		if form == fdb.WordKey {
			text = strings.ReplaceAll(text, `\x`, "")
		}
		if text == "" || strings.ContainsAny(text, " \t\r\n\v\f;\"'\\\x00`$") {
			t.Fatalf("%q is a %s", text, form)
		}
	})
}

func FuzzCheckWord(f *testing.F) {
	f.Add("a:b")
	f.Add("10.1.2.3:4500;kill")
	f.Add(`\x00`)
	f.Fuzz(func(t *testing.T, text string) {
		for _, form := range words {
			if fdb.CheckWord(form, text) == nil && strings.ContainsAny(text, " \t\r\n;\"'\x00") {
				t.Fatalf("%q is a %s", text, form)
			}
		}
	})
}

func TestCheckParameters(t *testing.T) {
	for _, test := range []struct {
		list []string
		want []string // parts of the message; none: accepted
	}{
		{nil, nil},
		{[]string{"knob_disable_posix_kernel_aio=1", "locality_data_hall=$NODE_LABEL_TOPOLOGY_KUBERNETES_IO_ZONE", "trace_format = json"}, nil},
		{[]string{"knob_a=b=c", "knob_b=a;b", "memory=8GiB", "flag"}, nil},
		{[]string{"datadir_x=1", "users=1"}, nil},
		{[]string{"knob_a=1", " knob_a =2"}, []string{`"knob_a" is there twice`}},
		{[]string{"knob_a=1", "knob-a=2"}, []string{`"knob-a" is there twice`}},
		{[]string{"datadir=/x"}, []string{`"datadir" cannot be set`}},
		{[]string{" datadir = /x", "group=a", "user=b"}, []string{"datadir", "group", "user"}},
		{[]string{"cluster-file=a"}, []string{"cluster-file"}},
		{[]string{"cluster_file=a"}, []string{"cluster_file"}},
		{[]string{"delete-envvars=a"}, []string{"delete-envvars"}},
		{[]string{"kill-on-configuration-change=a"}, []string{"kill-on-configuration-change"}},
		{[]string{"disable-lifecycle-logging=a"}, []string{"disable-lifecycle-logging"}},
		{[]string{"restart-delay=a", "initial-restart-delay=a", "restart-backoff=a", "restart-delay-reset-interval=a"}, []string{"restart-delay", "initial-restart-delay", "restart-backoff", "restart-delay-reset-interval"}},
		{[]string{"=a"}, []string{"no name"}},
		{[]string{""}, []string{"no name"}},
		{[]string{"knob a=b"}, []string{"no name"}},
		{[]string{"--knob_a=b"}, []string{"no name"}},
		{[]string{"knob_a=b\n[fdbserver.9]"}, []string{"line break"}},
		{[]string{"knob_a=b\x00"}, []string{"control"}},
	} {
		err := fdb.CheckParameters(test.list)
		if (err == nil) != (test.want == nil) || err != nil && fault.Of(err) != fdb.ParametersInvalid {
			t.Errorf("%q gives %v", test.list, err)
			continue
		}
		for _, part := range test.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q gives %v, without %q", test.list, err, part)
			}
		}
	}
}

func TestBackupKnobs(t *testing.T) {
	got := fdb.BackupKnobs([]string{"knob_http_verbose_level=3", "locality_zoneid=a", " locality_dcid = b", " knob_b = 1 ", "knob_c=a = b", "flag"})
	if diff := cmp.Diff([]string{"--knob_http_verbose_level=3", "--knob_b=1", "--knob_c=a = b", "--flag"}, got); diff != "" {
		t.Error(diff)
	}
	if got := fdb.BackupKnobs(nil); got != nil {
		t.Errorf("of nothing: %v", got)
	}
}

// A list that is accepted is still accepted when a parameter is taken away, and refused when one is
// repeated.
func TestParameterRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.StringMatching(`(knob_|locality-|data|user|restart-)[a-z]{0,6}( ?= ?[a-z0-9]{0,3})?`), 1, 6).Draw(t, "list")
		if fdb.CheckParameters(list) != nil {
			return
		}
		at := rapid.IntRange(0, len(list)-1).Draw(t, "at")
		if err := fdb.CheckParameters(append(append([]string{}, list[:at]...), list[at+1:]...)); err != nil {
			t.Fatalf("without %q: %v", list[at], err)
		}
		if fdb.CheckParameters(append(append([]string{}, list...), list[at])) == nil {
			t.Fatalf("%q twice is accepted", list[at])
		}
	})
}

func FuzzCheckParameters(f *testing.F) {
	f.Add("knob_a=1", "knob-a=2")
	f.Add("locality_zoneid=$NODE", " datadir =x")
	f.Add("a\n[b]", "=")
	f.Fuzz(func(t *testing.T, first, second string) {
		list := []string{first, second}
		if err := fdb.CheckParameters(list); err != nil {
			if fault.Of(err) != fdb.ParametersInvalid {
				t.Fatalf("the fault of %q is %v", list, err)
			}
			return
		}
		for _, argument := range fdb.BackupKnobs(list) {
			if !strings.HasPrefix(argument, "--") || strings.HasPrefix(argument, "--locality_") || strings.ContainsAny(argument, "\n\r\x00") {
				t.Fatalf("%q has the argument %q", list, argument)
			}
		}
	})
}
