package fdb

import (
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb/internal/tuple"
	"github.com/pawl-dev/pawl/lock"
)

func TestLockInverse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := lock.Record{
			Owner: rapid.String().Draw(t, "owner"),
			Start: unix(rapid.Int64Range(-1<<40, 1<<40).Draw(t, "start")),
			End:   unix(rapid.Int64Range(-1<<40, 1<<40).Draw(t, "end")),
		}
		stored := DecodeLock(EncodeLock(r))
		if stored.Err != nil || stored.Record == nil || *stored.Record != r {
			t.Fatalf("%v becomes %v", r, stored)
		}
		if cut := EncodeLock(r); DecodeLock(cut[:len(cut)-1]).Err == nil && r.End.Unix() != 0 {
			t.Fatalf("%x is read", cut[:len(cut)-1])
		}
	})
}

func TestLockIsUnreadableUnlessItIsATriple(t *testing.T) {
	if stored := DecodeLock(nil); stored.Err != nil || stored.Record != nil {
		t.Errorf("no value: %v", stored)
	}
	for name, value := range map[string][]byte{
		"text":           []byte("held"),
		"pair":           tuple.Pack("kc1", int64(1)),
		"quadruple":      tuple.Pack("kc1", int64(1), int64(2), int64(3)),
		"other order":    tuple.Pack(int64(1), "kc1", int64(2)),
		"text as time":   tuple.Pack("kc1", "1", int64(2)),
		"text as end":    tuple.Pack("kc1", int64(1), "2"),
		"bytes as owner": append([]byte{1, 'k', 0}, tuple.Pack(int64(1), int64(2))...),
		"JSON":           []byte(`{"owner":"kc1"}`),
		"NUL":            {0},
	} {
		stored := DecodeLock(value)
		if stored.Record != nil || fault.Of(stored.Err) != lock.Unreadable {
			t.Errorf("%s: %v", name, stored)
		}
		if d := lock.Decide(unix(0), stored, "kc1", nil, 0); d.Granted || d.Write {
			t.Errorf("%s: the lock is granted", name)
		}
	}
}

func TestTimes(t *testing.T) {
	at := unix(1700000000)
	if got := hex.EncodeToString(EncodeTime(at)); got != "186553f100" {
		t.Errorf("a time is %s", got)
	}
	if got := hex.EncodeToString(EncodeMaintenance(at)); got != "00f1536500000000" {
		t.Errorf("a maintenance is %s", got)
	}
	for _, c := range []struct {
		name   string
		decode func([]byte) (time.Time, error)
		value  []byte
		ok     bool
	}{
		{"time", DecodeTime, EncodeTime(at), true},
		{"time and more", DecodeTime, tuple.Pack(at.Unix(), "x"), true},
		{"no element", DecodeTime, nil, false},
		{"text", DecodeTime, tuple.Pack("1700000000"), false},
		{"cut", DecodeTime, EncodeTime(at)[:4], false},
		{"maintenance", DecodeMaintenance, EncodeMaintenance(at), true},
		{"seven bytes", DecodeMaintenance, EncodeMaintenance(at)[:7], false},
		{"nine bytes", DecodeMaintenance, append(EncodeMaintenance(at), 0), false},
		{"nothing", DecodeMaintenance, nil, false},
	} {
		got, err := c.decode(c.value)
		if c.ok != (err == nil) || c.ok && !got.Equal(at) || !c.ok && fault.Of(err) != KeyUnreadable {
			t.Errorf("%s: %v, %v", c.name, got, err)
		}
	}
}

func TestAddressLists(t *testing.T) {
	for _, list := range [][]string{{}, {"10.1.1.1:4501"}, {"10.1.1.1:4501", "[::1]:4500:tls"}} {
		got, err := DecodeAddresses(EncodeAddresses(list))
		if err != nil || !cmp.Equal(got, list) {
			t.Errorf("%q becomes %q, %v", list, got, err)
		}
	}
	if got := string(EncodeAddresses(nil)); got != "[]" {
		t.Errorf("no address is %s", got)
	}
	if _, err := DecodeAddresses([]byte(`{"a":1}`)); fault.Of(err) != KeyUnreadable {
		t.Errorf("an object: %v", err)
	}
}

// The keys as the published operator writes them (fdbclient/lock_client.go, admin_client.go and
// fdb_client.go at 2.33.0).
func TestKeys(t *testing.T) {
	k := Keys("")
	for want, got := range map[string]string{
		"/global":                             k.Global(),
		"/denyList/kc1":                       k.Denied("kc1"),
		"/upgrades/7.3.79/kc1-storage-1":      k.Upgrade("7.3.79", "kc1-storage-1"),
		"/maintenance/kc1-storage-1":          k.Maintenance("kc1-storage-1"),
		"/pendingForRemoval/kc1/kc1-log-2":    k.Pending(Removal, "kc1", "kc1-log-2"),
		"/pendingForExclusion/kc1/kc1-log-2":  k.Pending(Exclusion, "kc1", "kc1-log-2"),
		"/pendingForInclusion/kc1/kc1-log-2":  k.Pending(Inclusion, "kc1", "kc1-log-2"),
		"/pendingForRestart/log-2":            k.Pending(Restart, "", "log-2"),
		"/readyForExclusion/kc1/kc1-log-2":    k.Ready(Exclusion, "kc1", "kc1-log-2"),
		"/readyForInclusion/kc1/kc1-log-2":    k.Ready(Inclusion, "kc1", "kc1-log-2"),
		"/readyForRestart/kc1/kc1-log-2":      k.Ready(Restart, "kc1", "kc1-log-2"),
		"/processAddresses/kc1/kc1-storage-1": k.ProcessAddresses("kc1", "kc1-storage-1"),
	} {
		if got != LockPrefix+want {
			t.Errorf("%q instead of %q", got, LockPrefix+want)
		}
		if want != "/global" && want != "/denyList/kc1" && GroupOf(got) != want[strings.LastIndex(want, "/")+1:] {
			t.Errorf("the group of %q is %q", got, GroupOf(got))
		}
	}
	if got := Keys("\xff\x02/mine").Global(); got != "\xff\x02/mine/global" {
		t.Errorf("with a prefix: %q", got)
	}
}

// An instance whose name begins with another's is not read together with it.
func TestListsOfOneInstance(t *testing.T) {
	k := Keys("")
	for name, c := range map[string]struct {
		list Range
		key  func(instance string) string
	}{
		"pending":   {k.PendingList(Exclusion, "kc1"), func(i string) string { return k.Pending(Exclusion, i, "log-1") }},
		"ready":     {k.ReadyList(Exclusion, "kc1"), func(i string) string { return k.Ready(Exclusion, i, "log-1") }},
		"addresses": {k.AddressList("kc1"), func(i string) string { return k.ProcessAddresses(i, "log-1") }},
		"upgrades":  {k.Upgrades("kc1"), func(i string) string { return k.Upgrade(i, "log-1") }},
	} {
		if !c.list.Contains(c.key("kc1")) || c.list.Contains(c.key("kc10")) || c.list.Contains(c.key("kc")) {
			t.Errorf("%s: %q", name, c.list)
		}
	}
	for name, list := range map[string]Range{"pending": k.PendingList(Restart, ""), "ready": k.ReadyList(Restart, ""), "addresses": k.AddressList(""), "upgrades": k.Upgrades("")} {
		if list.Begin[len(list.Begin)-1] != '/' || list.Contains(k.Global()) {
			t.Errorf("all %s: %q", name, list)
		}
	}
	if !k.PendingList(Restart, "").Contains(k.Pending(Restart, "kc1", "log-1")) || !k.Upgrades("").Contains(k.Upgrade("7.3.79", "log-1")) {
		t.Error("the list of all instances lacks one")
	}
	if !k.DenyList().Contains(k.Denied("kc1")) || !k.MaintenanceList().Contains(k.Maintenance("log-1")) {
		t.Error("a list lacks its entry")
	}
}

func TestPrefixRange(t *testing.T) {
	for prefix, end := range map[string]string{"a": "b", "a\xff": "b", "\xff\x02/x/": "\xff\x02/x0", "\xff": "\xff", "": ""} {
		if r := PrefixRange(prefix); r.Begin != prefix || r.End != end {
			t.Errorf("%q: %q", prefix, r)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		prefix := string(rapid.SliceOfN(rapid.ByteRange(0, 0xfe), 1, 8).Draw(t, "prefix"))
		key := string(rapid.SliceOf(rapid.Byte()).Draw(t, "key"))
		if r := PrefixRange(prefix); r.Contains(key) != strings.HasPrefix(key, prefix) || !r.Contains(prefix+key) {
			t.Fatalf("%q in %q", key, r)
		}
	})
}

func TestValues(t *testing.T) {
	v := Values{{"a", []byte("1")}, {"b", nil}, {"b\x00", []byte("2")}, {"c", []byte("3")}}
	for key, want := range map[string]string{"a": "1", "b": "", "b\x00": "2", "c": "3"} {
		if got, ok := v.Get(key); !ok || string(got) != want {
			t.Errorf("%q is %q, %t", key, got, ok)
		}
	}
	for _, key := range []string{"", "aa", "d"} {
		if got, ok := v.Get(key); ok {
			t.Errorf("%q is %q", key, got)
		}
	}
	for _, c := range []struct {
		r    Range
		want Values
	}{
		{Range{Begin: "a", End: "z"}, v}, {Range{Begin: "b", End: "c"}, v[1:3]}, {SingleKey("b"), v[1:2]},
		{PrefixRange("b"), v[1:3]}, {Range{Begin: "d", End: "e"}, nil}, {Range{Begin: "c", End: "a"}, nil}, {Range{}, nil},
	} {
		if got := v.In(c.r); len(got) != len(c.want) || len(got) > 0 && !cmp.Equal(got, c.want) {
			t.Errorf("%q: %v", c.r, got)
		}
	}
}

func FuzzDecodeLock(f *testing.F) {
	for _, seed := range [][]byte{nil, {0}, {2}, EncodeLock(lock.Record{Owner: "kc1", Start: unix(1), End: unix(2)}), {0x0c, 0, 0, 0, 0, 0, 0, 0, 0}, {0x1d, 9}} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		stored := DecodeLock(value)
		if (stored.Record == nil) == (stored.Err == nil) && len(value) > 0 {
			t.Fatalf("%x is neither a record nor an error: %v", value, stored)
		}
		if stored.Record != nil {
			if again := DecodeLock(EncodeLock(*stored.Record)); again.Record == nil || *again.Record != *stored.Record {
				t.Fatalf("%x is read as %v, then as %v", value, stored, again)
			}
		}
		_, _ = DecodeTime(value)
		_, _ = DecodeMaintenance(value)
		_, _ = DecodeAddresses(value)
	})
}
