package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/fault"
)

// TestFoundationDBFaultsNameTheGuide: pawl explain leads from each fault of FoundationDB to a section of the guide.
func TestFoundationDBFaultsNameTheGuide(t *testing.T) {
	sections := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^##+ (.+)$`).FindAllStringSubmatch(foundationdbGuide(t), -1) {
		sections[strings.ReplaceAll(strings.ToLower(m[1]), " ", "-")] = true
	}
	count := 0
	for _, k := range fault.All() {
		if !strings.HasPrefix(string(k.Code), "FDB_") {
			continue
		}
		count++
		if anchor, ok := strings.CutPrefix(k.Guide, "foundationdb.md#"); !ok || !sections[anchor] {
			t.Errorf("%s leads to %q", k.Code, k.Guide)
		}
	}
	if count < 40 {
		t.Errorf("only %d faults", count)
	}
}
