package runstore_test

import (
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/workflow/runstore"
)

// The cost of a line is what its JSON needs, and not much more.
func TestCostOfALine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := runstore.LogLine{
			At:     time.Unix(1_800_000_000, rapid.Int64Range(0, 999_999_999).Draw(t, "nanoseconds")).UTC(),
			Stream: rapid.SampledFrom([]runstore.LogStream{runstore.LogOut, runstore.LogErr, runstore.LogLogger}).Draw(t, "stream"),
			Text:   rapid.StringMatching(`[ -~äö€]{0,40}`).Draw(t, "text") + rapid.SampledFrom([]string{"", "<a href=\"x\">&", "\x1b[31m\t\r"}).Draw(t, "more"),
		}
		text, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		if n := int64(len(text)); l.Cost() < n || l.Cost() > n+20 {
			t.Fatalf("%s has %d bytes, and costs %d", text, n, l.Cost())
		}
	})
}
