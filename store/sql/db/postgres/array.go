package postgres

import (
	"encoding/binary"

	"github.com/jackc/pgx/v5/pgtype"
)

// Arrays in PostgreSQL's binary format, encoded by hand: a batch holds a dozen of them,
// and they are the client's largest cost.

func arrayHead(oid uint32, n int, size int) []byte {
	b := make([]byte, 0, 20+size)
	if n == 0 {
		b = binary.BigEndian.AppendUint32(b, 0)
		b = binary.BigEndian.AppendUint32(b, 0)
		return binary.BigEndian.AppendUint32(b, oid)
	}
	b = binary.BigEndian.AppendUint32(b, 1) // dimensions
	b = binary.BigEndian.AppendUint32(b, 1) // may hold NULL
	b = binary.BigEndian.AppendUint32(b, oid)
	b = binary.BigEndian.AppendUint32(b, uint32(n))
	return binary.BigEndian.AppendUint32(b, 1) // the first index
}

// Int8Array encodes numbers.
func Int8Array[T any](items []T, value func(T) int64) []byte {
	b := arrayHead(pgtype.Int8OID, len(items), 12*len(items))
	for _, item := range items {
		b = binary.BigEndian.AppendUint32(b, 8)
		b = binary.BigEndian.AppendUint64(b, uint64(value(item)))
	}
	return b
}

// TextArray encodes texts.
func TextArray[T any](items []T, value func(T) string) []byte {
	b := arrayHead(pgtype.TextOID, len(items), 40*len(items))
	for _, item := range items {
		v := value(item)
		b = binary.BigEndian.AppendUint32(b, uint32(len(v)))
		b = append(b, v...)
	}
	return b
}

// ByteaArray encodes bytes. It writes nil as NULL.
func ByteaArray[T any](items []T, value func(T) []byte) []byte {
	b := arrayHead(pgtype.ByteaOID, len(items), 100*len(items))
	for _, item := range items {
		v := value(item)
		if v == nil {
			b = binary.BigEndian.AppendUint32(b, 0xffffffff)
			continue
		}
		b = binary.BigEndian.AppendUint32(b, uint32(len(v)))
		b = append(b, v...)
	}
	return b
}

// Int8Param encodes a number.
func Int8Param(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

// Int8Value decodes a number.
func Int8Value(b []byte) int64 {
	if len(b) != 8 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(b))
}

// BinaryFormat says that parameters or results are in the binary format.
var BinaryFormat = []int16{1}
