package fdb

import (
	"encoding/binary"
	"encoding/json"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/lock"
)

// KeyUnreadable is the fault of a shared key whose value has another shape than operators give it.
var KeyUnreadable = fault.Declare(fault.Kind{
	Code: "FDB_KEY_UNREADABLE", Class: fault.Blocked,
	Title:  "the value of a key that operators share cannot be read",
	Remedy: "Find out who wrote it. When no other operator needs the value any more, clear the key and try again.",
})

// DecodeLock reads the value of LockKeys.Global: the tuple of owner, start and end, both in unix
// seconds. An empty value is a free lock; anything else is unreadable.
func DecodeLock(value []byte) lock.Stored {
	if len(value) == 0 {
		return lock.Stored{}
	}
	elements, err := unpackTuple(value)
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
func EncodeLock(r lock.Record) []byte { return packTuple(r.Owner, r.Start.Unix(), r.End.Unix()) }

// EncodeTime makes the value of a key of LockKeys.Pending and LockKeys.Ready: the tuple of the unix
// time in seconds.
func EncodeTime(t time.Time) []byte { return packTuple(t.Unix()) }

// DecodeTime reads what EncodeTime makes. The published operator reads the first element and ignores
// others; so does this.
func DecodeTime(value []byte) (time.Time, error) {
	elements, err := unpackTuple(value)
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
