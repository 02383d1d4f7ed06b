// Package codec writes what a run holds as blobs, the same for both databases.
package codec

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/workflow/runtype"
)

// format is the first byte of every blob.
const format = 1

// encoder writes numbers as varints, strings with their length, and times as the
// distance in nanoseconds to the time before.
type encoder struct {
	b    []byte
	last int64
}

func newEncoder(b []byte) encoder { return encoder{b: append(b, format)} }

func (e *encoder) int(n int64)    { e.b = binary.AppendVarint(e.b, n) }
func (e *encoder) uint(n uint64)  { e.b = binary.AppendUvarint(e.b, n) }
func (e *encoder) text(s string)  { e.uint(uint64(len(s))); e.b = append(e.b, s...) }
func (e *encoder) bytes(p []byte) { e.uint(uint64(len(p))); e.b = append(e.b, p...) }
func (e *encoder) json(v any) {
	data, err := json.Marshal(v)
	if err != nil {
		data = []byte("null") // the store gets only values that were decoded from JSON
	}
	e.bytes(data)
}

// near limits the times that are written as one distance.
const near int64 = math.MaxInt64 / 4

func (e *encoder) time(t time.Time) {
	if t.IsZero() {
		e.uint(0)
		return
	}
	if sec := t.Unix(); sec > -near/int64(time.Second) && sec < near/int64(time.Second) {
		n := t.UnixNano()
		d := n - e.last
		e.last = n
		e.uint(2 + uint64(d<<1^d>>63)) // zigzag
		return
	}
	e.uint(1)
	e.int(t.Unix())
	e.uint(uint64(t.Nanosecond()))
}

// decoder reads the format of encoder. It keeps the first error.
type decoder struct {
	b    []byte
	last int64
	err  error
}

func newDecoder(b []byte) *decoder {
	d := &decoder{b: b}
	if len(b) == 0 || b[0] != format {
		d.fail("unknown format")
		return d
	}
	d.b = b[1:]
	return d
}

func (d *decoder) fail(what string) {
	if d.err == nil {
		d.err = fmt.Errorf("damaged record: %s", what)
	}
	d.b = nil
}

func (d *decoder) int() int64 {
	n, size := binary.Varint(d.b)
	if size <= 0 {
		d.fail("a number is cut off")
		return 0
	}
	d.b = d.b[size:]
	return n
}

func (d *decoder) uint() uint64 {
	n, size := binary.Uvarint(d.b)
	if size <= 0 {
		d.fail("a number is cut off")
		return 0
	}
	d.b = d.b[size:]
	return n
}

func (d *decoder) part() []byte {
	n := d.uint()
	if n > uint64(len(d.b)) {
		d.fail("a value is cut off")
		return nil
	}
	part := d.b[:n:n]
	d.b = d.b[n:]
	return part
}

func (d *decoder) text() string { return string(d.part()) }

// bytes returns a copy, because the blob may be memory of the database.
func (d *decoder) bytes() []byte { return append([]byte{}, d.part()...) }

func (d *decoder) json(v any) {
	if data := d.part(); d.err == nil {
		if err := json.Unmarshal(data, v); err != nil {
			d.fail(err.Error())
		}
	}
}

func (d *decoder) time() time.Time {
	switch tag := d.uint(); tag {
	case 0:
		return time.Time{}
	case 1:
		sec := d.int()
		return time.Unix(sec, int64(d.uint())).UTC()
	default:
		tag -= 2
		d.last += int64(tag>>1) ^ -int64(tag&1)
		return time.Unix(0, d.last).UTC()
	}
}

// A name from a fixed list is one byte: its index, or 255 followed by the text.
const other = 255

func name[T ~string](e *encoder, list []T, v T) {
	for i, known := range list {
		if known == v {
			e.b = append(e.b, byte(i))
			return
		}
	}
	e.b = append(e.b, other)
	e.text(string(v))
}

func named[T ~string](d *decoder, list []T) T {
	if len(d.b) == 0 {
		d.fail("a name is cut off")
		return ""
	}
	i := int(d.b[0])
	d.b = d.b[1:]
	switch {
	case i < len(list):
		return list[i]
	case i == other:
		return T(d.text())
	}
	d.fail(fmt.Sprintf("unknown name %d", i))
	return ""
}

// The order of these lists is part of the format: append only.
var (
	runPhases = []runtype.Phase{"", runtype.Queued, runtype.Running, runtype.Waiting, runtype.Paused,
		runtype.Cancelling, runtype.Cancelled, runtype.Succeeded}
	recordPhases = []runtype.StepPhase{"", runtype.StepRunning, runtype.StepRetrying, runtype.StepWaiting, runtype.StepFailed,
		runtype.StepDone, runtype.StepSkipped, runtype.StepPending, runtype.StepUndone, runtype.StepEntered}
)

// flags holds one bit for each optional field that is present.
type flags uint64

func (f *flags) set(bit int, on bool) bool {
	if on {
		*f |= 1 << bit
	}
	return on
}
func (f flags) has(bit int) bool { return f&(1<<bit) != 0 }

// PhaseNumber is the number of a phase in its column: its index in runPhases.
func PhaseNumber(p runtype.Phase) int64 { return int64(slices.Index(runPhases, p)) }

// PhaseOf returns the phase with a number; "" if there is none.
func PhaseOf(n int64) runtype.Phase {
	if n < 0 || int(n) >= len(runPhases) {
		return ""
	}
	return runPhases[n]
}
