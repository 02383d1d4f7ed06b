package objects

import (
	"encoding/json"
	"testing"

	"github.com/pawl-dev/pawl/control"
)

// What apply --wait takes for ready: the newest spec was seen, and nothing of it
// is under way or left to do, standalone and on Kubernetes alike.
func TestFinding12WhatIsReady(t *testing.T) {
	for status, want := range map[string]bool{
		`{}`: false,
		`{"conditions":[{"type":"Ready","status":"True","observedGeneration":2},{"type":"Progressing","status":"False","observedGeneration":2}]}`:                                   true,
		`{"conditions":[{"type":"Ready","status":"True","observedGeneration":2}]}`:                                                                                                  true,
		`{"conditions":[{"type":"Ready","status":"True","observedGeneration":1},{"type":"Progressing","status":"False","observedGeneration":1}]}`:                                   false,
		`{"conditions":[{"type":"Ready","status":"True","observedGeneration":2},{"type":"Progressing","status":"False","observedGeneration":1}]}`:                                   false,
		`{"conditions":[{"type":"Ready","status":"True","observedGeneration":2},{"type":"Progressing","status":"True","observedGeneration":2}]}`:                                    false,
		`{"conditions":[{"type":"Ready","status":"True","observedGeneration":2},{"type":"Progressing","status":"Unknown","observedGeneration":2}]}`:                                 false,
		`{"requests":[{"state":"Pending"}],"conditions":[{"type":"Ready","status":"True","observedGeneration":2},{"type":"Progressing","status":"False","observedGeneration":2}]}`:  false,
		`{"requests":[{"state":"Running"}],"conditions":[{"type":"Ready","status":"True","observedGeneration":2},{"type":"Progressing","status":"False","observedGeneration":2}]}`:  false,
		`{"requests":[{"state":"Rejected"}],"conditions":[{"type":"Ready","status":"True","observedGeneration":2},{"type":"Progressing","status":"False","observedGeneration":2}]}`: true,
	} {
		if got := summaryOf(control.Object{Generation: 2, Status: json.RawMessage(status)}).ready; got != want {
			t.Errorf("%s: ready %t", status, got)
		}
	}
}
