package clusters

import (
	"fmt"
	"testing"
)

// textRow is a row of one text.
type textRow string

func (r textRow) Int(int) int64   { return 0 }
func (r textRow) Text(int) string { return string(r) }

func (r textRow) AppendText(to []byte, _ int) []byte { return append(to, r...) }
func (r textRow) Bytes(int) []byte                   { return nil }
func (r textRow) List(int) [][]byte                  { return nil }

// A document decodes to the same value each time, even if a caller has changed the value
// it got before. Invalid JSON is damage, not the zero value.
func TestDocumentCache(t *testing.T) {
	const text = `{"zone":"z","cidrs":["10.0.0.0/8"],"vms":["a","b"]}`
	for range 3 {
		s := specCache.of(&reader{row: textRow(text)})
		if s.Zone != "z" || len(s.CIDRs) != 1 || s.CIDRs[0] != "10.0.0.0/8" || len(s.VMs) != 2 || s.VMs[1] != "b" {
			t.Fatalf("%+v", s)
		}
		s.CIDRs[0], s.VMs[1] = "changed", "changed"
	}
	for i := range 5_000 { // more than there are slots
		if s := specCache.of(&reader{row: textRow(fmt.Sprintf(`{"network":"n%d"}`, i))}); s.Network != fmt.Sprint("n", i) {
			t.Fatalf("document %d: %+v", i, s)
		}
	}
	for range 2 {
		r := &reader{row: textRow("{")}
		if specCache.of(r); r.err == nil {
			t.Error("a damaged document is read")
		}
	}
	if s := specCache.of(&reader{row: textRow("")}); s.Zone != "" || s.VMs != nil {
		t.Errorf("no document: %+v", s)
	}
	before := positionCache.of(&reader{row: textRow(`{"state":"Running","visit":1,"ending":{"run":"r"}}`)})
	before.Ending.Run = "changed"
	if p := positionCache.of(&reader{row: textRow(`{"state":"Running","visit":1,"ending":{"run":"r"}}`)}); p.Ending.Run != "r" {
		t.Error("a change by one caller is visible to another")
	}
}
