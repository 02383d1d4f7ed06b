package tuple

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// The bytes follow the documented type codes of FoundationDB at 7.3.69.
func TestBytes(t *testing.T) {
	for _, c := range []struct {
		elements []any
		packed   string
	}{
		{[]any{""}, "0200"},
		{[]any{"kc1"}, "026b633100"},
		{[]any{"a\x00b"}, "026100ff6200"},
		{[]any{"\x00"}, "0200ff00"},
		{[]any{"FÔO"}, "0246c3944f00"},
		{[]any{int64(0)}, "14"},
		{[]any{int64(1)}, "1501"},
		{[]any{int64(255)}, "15ff"},
		{[]any{int64(256)}, "160100"},
		{[]any{int64(-1)}, "13fe"},
		{[]any{int64(-255)}, "1300"},
		{[]any{int64(-256)}, "12feff"},
		{[]any{int64(-5551212)}, "11ab4b93"},
		{[]any{int64(1700000000)}, "186553f100"},
		{[]any{int64(math.MaxInt64)}, "1c7fffffffffffffff"},
		{[]any{int64(math.MinInt64)}, "0c7fffffffffffffff"},
		{[]any{int64(math.MinInt64 + 1)}, "0c8000000000000000"},
		{[]any{"kc1", int64(1700000000), int64(1700000600)}, "026b633100186553f100186553f358"},
	} {
		packed := Pack(c.elements...)
		if hex.EncodeToString(packed) != c.packed {
			t.Errorf("%v: %x instead of %s", c.elements, packed, c.packed)
		}
		elements, err := Unpack(packed)
		if err != nil || !cmp.Equal(elements, c.elements) {
			t.Errorf("%s: %v, %v", c.packed, elements, err)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct{ packed, why string }{
		{"02", "cut"}, {"026b6331", "cut"}, {"026b00ff", "cut"}, {"15", "cut"}, {"1665", "cut"}, {"0cff", "cut"},
		{"00", "type"}, {"016b00", "type"}, {"0500", "type"}, {"26", "type"}, {"1d09", "type"}, {"0bf6", "type"},
		{"1c8000000000000000", "type"}, {"0c7ffffffffffffffe", "type"}, {"21c000000000000000", "type"},
	} {
		packed, _ := hex.DecodeString(c.packed)
		want := ErrCut
		if c.why == "type" {
			want = ErrType
		}
		if elements, err := Unpack(packed); !errors.Is(err, want) {
			t.Errorf("%s: %v, %v", c.packed, elements, err)
		}
	}
}

func TestInverse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		elements := rapid.SliceOf(rapid.OneOf(
			rapid.Map(rapid.String(), func(s string) any { return s }),
			rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) any { return string(b) }),
			rapid.Map(rapid.Int64(), func(n int64) any { return n }),
		)).Draw(t, "elements")
		unpacked, err := Unpack(Pack(elements...))
		if err != nil || !slices.Equal(unpacked, elements) {
			t.Fatalf("%v becomes %v, %v", elements, unpacked, err)
		}
	})
}

// The order of tuples is the order of their bytes, or range reads would miss entries.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Int64().Draw(t, "a"), rapid.Int64().Draw(t, "b")
		if order := bytes.Compare(Pack(a), Pack(b)); (order < 0) != (a < b) || (order == 0) != (a == b) {
			t.Fatalf("%d and %d: %d", a, b, order)
		}
	})
}
