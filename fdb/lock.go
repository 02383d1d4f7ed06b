package fdb

import (
	"encoding/binary"
	"encoding/json"
	"path"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb/internal/tuple"
	"github.com/pawl-dev/pawl/lock"
)

// KeyUnreadable is the fault of a shared key whose value has another shape than operators give it.
var KeyUnreadable = fault.Declare(fault.Kind{
	Code: "FDB_KEY_UNREADABLE", Class: fault.Blocked,
	Title:  "the value of a key that operators share cannot be read",
	Remedy: "Find out who wrote it. When no other operator needs the value any more, clear the key and try again.",
	Guide:  "foundationdb.md#if-it-does-not-go-on",
})

// DecodeLock reads the value of LockKeys.Global: the tuple of owner, start and end, both in unix
// seconds. An empty value is a free lock; anything else is unreadable.
func DecodeLock(value []byte) lock.Stored {
	if len(value) == 0 {
		return lock.Stored{}
	}
	elements, err := tuple.Unpack(value)
	if err != nil {
		return lock.Stored{Err: lock.Unreadable.Errorf("%x: %w", value, err)}
	}
	if len(elements) == 3 {
		owner, isText := elements[0].(string)
		start, isStart := elements[1].(int64)
		end, isEnd := elements[2].(int64)
		if isText && isStart && isEnd {
			return lock.Stored{Record: &lock.Record{Owner: owner, Start: unix(start), End: unix(end)}}
		}
	}
	return lock.Stored{Err: lock.Unreadable.Errorf("%x is no tuple of owner, start and end", value)}
}

// EncodeLock makes the value of LockKeys.Global. Times are cut to seconds.
func EncodeLock(r lock.Record) []byte { return tuple.Pack(r.Owner, r.Start.Unix(), r.End.Unix()) }

// EncodeTime makes the value of a key of LockKeys.Pending and LockKeys.Ready: the tuple of the unix
// time in seconds.
func EncodeTime(t time.Time) []byte { return tuple.Pack(t.Unix()) }

// DecodeTime reads what EncodeTime makes. The published operator reads the first element and ignores
// others; so does this.
func DecodeTime(value []byte) (time.Time, error) {
	elements, err := tuple.Unpack(value)
	if err != nil {
		return time.Time{}, KeyUnreadable.Errorf("%x: %w", value, err)
	}
	if len(elements) > 0 {
		if seconds, ok := elements[0].(int64); ok {
			return unix(seconds), nil
		}
	}
	return time.Time{}, KeyUnreadable.Errorf("%x is no tuple of a time", value)
}

// EncodeMaintenance makes the value of LockKeys.Maintenance: the unix time in seconds as a
// little-endian int64 (fdbclient/admin_client.go at 2.33.0).
func EncodeMaintenance(t time.Time) []byte {
	return binary.LittleEndian.AppendUint64(nil, uint64(t.Unix())) //nolint:gosec // the bits are kept
}

// DecodeMaintenance reads what EncodeMaintenance makes.
func DecodeMaintenance(value []byte) (time.Time, error) {
	if len(value) != 8 {
		return time.Time{}, KeyUnreadable.Errorf("%x is no time of eight bytes", value)
	}
	return unix(int64(binary.LittleEndian.Uint64(value))), nil //nolint:gosec // the bits are kept
}

// EncodeAddresses makes the value of LockKeys.ProcessAddresses: a JSON list.
func EncodeAddresses(addresses []string) []byte {
	if addresses == nil {
		addresses = []string{}
	}
	value, _ := json.Marshal(addresses) // a list of strings always has a JSON form
	return value
}

// DecodeAddresses reads what EncodeAddresses makes.
func DecodeAddresses(value []byte) ([]string, error) {
	var addresses []string
	if err := json.Unmarshal(value, &addresses); err != nil {
		return nil, KeyUnreadable.Errorf("%q is no list of addresses: %w", value, err)
	}
	return addresses, nil
}

func unix(seconds int64) time.Time { return time.Unix(seconds, 0).UTC() }

// LockPrefix is the prefix of the shared keys unless the spec gives another. The published operator
// uses the same (api/v1beta2/foundationdbcluster_types.go at 2.33.0).
const LockPrefix = "\xff\x02/org.foundationdb.kubernetes-operator"

// Action is what instances do together, as the shared keys name it.
type Action string

// The actions. Nothing becomes ready for Removal: a group that is pending for removal is excluded.
const (
	Removal   Action = "Removal"
	Exclusion Action = "Exclusion"
	Inclusion Action = "Inclusion"
	Restart   Action = "Restart"
)

// LockKeys are the keys that all operators of a database share. Keys makes them.
type LockKeys struct{ prefix string }

// Keys returns the shared keys below a prefix; empty means LockPrefix.
func Keys(prefix string) LockKeys {
	if prefix == "" {
		prefix = LockPrefix
	}
	return LockKeys{prefix: prefix}
}

// Global is the key of the lock.
func (k LockKeys) Global() string { return k.prefix + "/global" }

// Denied is the key of the entry of the deny list that names an owner. Its value is the owner.
func (k LockKeys) Denied(owner string) string { return k.prefix + "/denyList/" + owner }

// DenyList is the range of the deny list.
func (k LockKeys) DenyList() Range { return PrefixRange(k.Denied("")) }

// Upgrade is the key by which a group waits for the restart with a version. Its value is the group.
func (k LockKeys) Upgrade(version, group string) string {
	return k.prefix + "/upgrades/" + version + "/" + group
}

// Upgrades is the range of the groups that wait for a version; an empty version means any.
func (k LockKeys) Upgrades(version string) Range {
	if version == "" {
		return PrefixRange(k.prefix + "/upgrades/")
	}
	return PrefixRange(k.Upgrade(version, ""))
}

// Maintenance is the key of a group under maintenance; EncodeMaintenance makes its value.
func (k LockKeys) Maintenance(group string) string { return k.prefix + "/maintenance/" + group }

// MaintenanceList is the range of the groups under maintenance.
func (k LockKeys) MaintenanceList() Range { return PrefixRange(k.Maintenance("")) }

// Pending is the key by which a group of an instance waits for an action; EncodeTime makes its value.
// The published operator leaves out an empty instance (path.Join in fdbclient/fdb_client.go at 2.33.0).
func (k LockKeys) Pending(a Action, instance, group string) string {
	return path.Join(k.prefix, "pendingFor"+string(a), instance, group)
}

// Ready is the key by which a group of an instance may take part in an action.
func (k LockKeys) Ready(a Action, instance, group string) string {
	return path.Join(k.prefix, "readyFor"+string(a), instance, group)
}

// ProcessAddresses is the key of the addresses of a group; EncodeAddresses makes its value.
func (k LockKeys) ProcessAddresses(instance, group string) string {
	return path.Join(k.prefix, "processAddresses", instance, group)
}

// PendingList is the range of the groups that wait for an action; an empty instance means all
// instances.
func (k LockKeys) PendingList(a Action, instance string) Range {
	return PrefixRange(k.Pending(a, instance, "") + "/")
}

// ReadyList is the range of the groups that are ready for an action.
func (k LockKeys) ReadyList(a Action, instance string) Range {
	return PrefixRange(k.Ready(a, instance, "") + "/")
}

// AddressList is the range of the addresses of groups.
func (k LockKeys) AddressList(instance string) Range {
	return PrefixRange(k.ProcessAddresses(instance, "") + "/")
}

// GroupOf is the group that a key of Upgrades, MaintenanceList, PendingList, ReadyList or AddressList
// names.
func GroupOf(key string) string { return key[strings.LastIndexByte(key, '/')+1:] }
