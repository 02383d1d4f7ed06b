// Package tuple encodes strings and integers as FoundationDB's tuple layer does.
//
//	tuple.Pack("kc1", int64(1700000000))   // 02 6b6331 00 18 6553f100
package tuple

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
)

// The type codes of the tuple layer, as FoundationDB documents them at 7.3.69. Only strings and integers of up to
// eight bytes are known here: nothing else stands in the keys that the operators share.
const (
	codeString = 0x02
	codeZero   = 0x14 // an integer of n bytes has the code 0x14+n, a negative one 0x14-n
	codeEscape = 0xff // behind a NUL: the NUL belongs to the string
)

// What is wrong with a tuple that cannot be read.
var (
	ErrCut  = errors.New("the tuple ends inside an element")
	ErrType = errors.New("the tuple has an element that is neither a string nor an int64")
)

// Pack encodes strings and int64s; it ignores values of other types.
func Pack(elements ...any) []byte {
	var packed []byte
	for _, element := range elements {
		switch e := element.(type) {
		case string:
			packed = append(packed, codeString)
			packed = append(packed, bytes.ReplaceAll([]byte(e), []byte{0}, []byte{0, codeEscape})...)
			packed = append(packed, 0)
		case int64:
			packed = packInteger(packed, e)
		}
	}
	return packed
}

func packInteger(packed []byte, n int64) []byte {
	size := integerSize(n)
	if n >= 0 {
		packed = append(packed, byte(codeZero+size))
		return append(packed, bigEndian(uint64(n))[8-size:]...)
	}
	packed = append(packed, byte(codeZero-size))
	return append(packed, bigEndian(^magnitude(n))[8-size:]...)
}

// integerSize is how many bytes the magnitude of n takes.
func integerSize(n int64) int {
	size := 0
	for m := magnitude(n); m > 0; m >>= 8 {
		size++
	}
	return size
}

func magnitude(n int64) uint64 {
	if n < 0 {
		return -uint64(n) //nolint:gosec // two's complement: right for the smallest int64 too
	}
	return uint64(n)
}

func bigEndian(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// Unpack decodes a tuple of strings and int64s.
func Unpack(packed []byte) ([]any, error) {
	var elements []any
	for len(packed) > 0 {
		code := int(packed[0])
		packed = packed[1:]
		switch {
		case code == codeString:
			text, rest, err := unpackString(packed)
			if err != nil {
				return nil, err
			}
			elements, packed = append(elements, text), rest
		case code >= codeZero-8 && code <= codeZero+8:
			n, rest, err := unpackInteger(packed, code-codeZero)
			if err != nil {
				return nil, err
			}
			elements, packed = append(elements, n), rest
		default:
			return nil, ErrType
		}
	}
	return elements, nil
}

func unpackString(packed []byte) (text string, rest []byte, err error) {
	var b []byte
	for i := 0; i < len(packed); i++ {
		switch {
		case packed[i] != 0:
			b = append(b, packed[i])
		case i+1 < len(packed) && packed[i+1] == codeEscape:
			b = append(b, 0)
			i++
		default:
			return string(b), packed[i+1:], nil
		}
	}
	return "", nil, ErrCut
}

// unpackInteger reads an integer of size bytes; a negative size means a negative integer.
func unpackInteger(packed []byte, size int) (n int64, rest []byte, err error) {
	negative := size < 0
	if negative {
		size = -size
	}
	if len(packed) < size {
		return 0, nil, ErrCut
	}
	word := make([]byte, 8)
	copy(word[8-size:], packed)
	m := binary.BigEndian.Uint64(word)
	if !negative {
		if m > math.MaxInt64 {
			return 0, nil, ErrType
		}
		return int64(m), packed[size:], nil
	}
	if size < 8 {
		m = 1<<(8*size) - 1 - m
	} else {
		m = ^m
	}
	if m > 1<<63 {
		return 0, nil, ErrType
	}
	return int64(-m), packed[size:], nil //nolint:gosec // the magnitude is at most 2^63
}
