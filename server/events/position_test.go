package events

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestCursorAhead(t *testing.T) {
	for _, c := range []struct {
		cursor, end string
		want        bool
	}{{"9", "9", false}, {"10", "9", true}, {"9.3", "9.1073741824", false}, {"17.3", "9.1", true}, {"748/12", "749", false}, {"x", "9", false}, {"9", "", false}} {
		if got := cursorAhead(c.cursor, c.end); got != c.want {
			t.Errorf("%s of %s: %v", c.cursor, c.end, got)
		}
	}
}

func TestPositions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := position{cursor: rapid.StringN(1, 20, -1).Draw(t, "cursor"), objects: rapid.String().Draw(t, "objects")}
		if rapid.Bool().Draw(t, "of clusters too") {
			p.clusters = strconv.FormatInt(rapid.Int64Range(0, math.MaxInt64).Draw(t, "clusters"), 10)
		}
		if p.cursor == "now" {
			t.Skip("no store gives that")
		}
		if rapid.Bool().Draw(t, "within a page") {
			p.read, p.checksum = rapid.IntRange(1, eventPage).Draw(t, "read"), rapid.StringMatching("[0-9a-z]{1,7}").Draw(t, "check")
		}
		id := p.String()
		if strings.ContainsAny(id, "\r\n\x00") {
			t.Fatalf("%q cannot be an event's id", id)
		}
		if got, err := parsePosition(id); err != nil || got != p {
			t.Fatalf("%+v became %+v, %v", p, got, err)
		}
	})
}

// No Last-Event-ID breaks a stream.
func FuzzPosition(f *testing.F) {
	for _, id := range []string{"", "17.3:2:1ab;45", "17;;9", "17;a;9", "17;;+9", "748-1-0", ":::", ";"} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		p, err := parsePosition(id)
		if err != nil {
			return
		}
		if again, err := parsePosition(p.String()); err != nil || again != p {
			t.Errorf("%q is %+v, then %+v, %v", id, p, again, err)
		}
	})
}
