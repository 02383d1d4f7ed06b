package upgrades

import (
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/fdb"
)

func TestClientTexts(t *testing.T) {
	many := make([]fdb.Client, 12)
	for count, want := range map[int]string{1: "1 client would lose the database at 7.4.6: ", 2: "2 clients would lose", 12: "12 clients would lose"} {
		if got := clientTexts(many[:count], "7.4.6"); !strings.HasPrefix(got, want) {
			t.Errorf("%d: %s", count, got)
		}
	}
	if got := clientTexts(many, "7.4.6"); !strings.HasSuffix(got, "and 2 more") {
		t.Error(got)
	}
}
