package pgbackrest

import (
	"encoding/binary"
	"errors"
)

var errLZ4 = errors.New("the file is no complete LZ4 frame")

// unlz4 decompresses one LZ4 frame: a header, blocks with their sizes, a size of 0. A block is
// sequences of literals and of a repetition. It does not check the checksums: each record of the log
// has one of its own.
func unlz4(in []byte) ([]byte, error) {
	const magic, header = 0x184D2204, 7
	if len(in) < header || binary.LittleEndian.Uint32(in) != magic {
		return nil, errLZ4
	}
	flags, size := in[4], header
	if flags&0x08 != 0 { // the size of the content
		size += 8
	}
	if flags&0x01 != 0 { // the id of a dictionary
		return nil, errors.New("the LZ4 frame needs a dictionary")
	}
	if len(in) < size {
		return nil, errLZ4
	}
	in = in[size:]
	var out []byte
	for {
		if len(in) < 4 {
			return nil, errLZ4
		}
		word := binary.LittleEndian.Uint32(in)
		if in = in[4:]; word == 0 {
			return out, nil
		}
		n := int(word & 0x7fffffff)
		if len(in) < n {
			return nil, errLZ4
		}
		var err error
		if word>>31 != 0 { // not compressed
			out = append(out, in[:n]...)
		} else if out, err = unblock(out, in[:n]); err != nil {
			return nil, err
		}
		if in = in[n:]; flags&0x10 != 0 { // a checksum of the block
			in = in[min(4, len(in)):]
		}
	}
}

// unblock appends the content of a block, which may repeat what is before it.
func unblock(out, in []byte) ([]byte, error) {
	length := func(n int) (int, bool) {
		for more := n == 15; more; {
			if len(in) == 0 {
				return 0, false
			}
			n, more, in = n+int(in[0]), in[0] == 255, in[1:]
		}
		return n, true
	}
	for len(in) > 0 {
		token := in[0]
		in = in[1:]
		literals, ok := length(int(token >> 4))
		if !ok || len(in) < literals {
			return nil, errLZ4
		}
		out = append(out, in[:literals]...)
		if in = in[literals:]; len(in) == 0 {
			return out, nil // the last sequence has only literals
		}
		if len(in) < 2 {
			return nil, errLZ4
		}
		back := int(binary.LittleEndian.Uint16(in))
		in = in[2:]
		match, ok := length(int(token & 15))
		if !ok || back == 0 || back > len(out) {
			return nil, errLZ4
		}
		for range match + 4 { // it may overlap what it appends
			out = append(out, out[len(out)-back])
		}
	}
	return out, nil
}
