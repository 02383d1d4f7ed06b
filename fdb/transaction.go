package fdb

import (
	"cmp"
	"slices"
)

// Range is a range of keys: from Begin up to End, without End.
type Range struct {
	Begin string `json:"begin"`
	End   string `json:"end"`
}

// SingleKey is the range of one key.
func SingleKey(key string) Range { return Range{Begin: key, End: key + "\x00"} }

// PrefixRange is the range of all keys with a prefix. A prefix of nothing but 0xff bytes has no end: its
// range is empty.
func PrefixRange(prefix string) Range {
	end := []byte(prefix)
	for len(end) > 0 && end[len(end)-1] == 0xff {
		end = end[:len(end)-1]
	}
	if len(end) == 0 {
		return Range{Begin: prefix, End: prefix}
	}
	end[len(end)-1]++
	return Range{Begin: prefix, End: string(end)}
}

// Contains reports whether a key lies in the range.
func (r Range) Contains(key string) bool { return key >= r.Begin && key < r.End }

// key is the key of a range of one key.
func (r Range) key() (string, bool) { return r.Begin, r.End == r.Begin+"\x00" }

// KeyValue is a key and its value.
type KeyValue struct {
	Key   string
	Value []byte
}

// Values are what a transaction has read, in the order of keys.
type Values []KeyValue

// Get returns the value of a key that was read.
func (v Values) Get(key string) ([]byte, bool) {
	i, ok := slices.BinarySearchFunc(v, key, func(kv KeyValue, key string) int { return cmp.Compare(kv.Key, key) })
	if !ok {
		return nil, false
	}
	return v[i].Value, true
}

// In returns what was read of a range.
func (v Values) In(r Range) Values {
	begin, _ := slices.BinarySearchFunc(v, r.Begin, func(kv KeyValue, key string) int { return cmp.Compare(kv.Key, key) })
	end, _ := slices.BinarySearchFunc(v, r.End, func(kv KeyValue, key string) int { return cmp.Compare(kv.Key, key) })
	return v[begin:max(begin, end)]
}

// Write changes keys at the end of a transaction.
type Write struct {
	Set   *KeyValue // sets a key
	Clear *Range    // clears a range; SingleKey for one key
}

// Set writes a key.
func Set(key string, value []byte) Write { return Write{Set: &KeyValue{Key: key, Value: value}} }

// Clear removes the keys of a range.
func Clear(r Range) Write { return Write{Clear: &r} }
