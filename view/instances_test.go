package view

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/control"
)

// A status that lists instances becomes tables. Its other keys, and any other status,
// stay unchanged.
func TestDescribeShowsInstancesAsTables(t *testing.T) {
	now := time.Date(2025, 1, 2, 3, 4, 5, 0, time.UTC)
	o := control.Object{Ref: control.Ref{Kind: "SharedStorageCluster", Namespace: "default", Name: "c1"}, Status: json.RawMessage(`{
		"state": "Running", "since": "2025-01-02T03:03:05Z", "previousState": "Creating", "writer": "2",
		"conditions": [{"type": "Ready", "status": "True", "reason": "WriterReady", "message": "instance 2 takes writes", "lastTransitionTime": "2025-01-02T03:03:05Z"}],
		"instances": {"10": {"role": "ro", "health": "Healthy", "lagBytes": 7}, "2": {"role": "rw", "health": "Healthy", "node": "node-1", "address": "127.32.0.1", "port": 5432}},
		"requests": [{"id": "k3x", "kind": "switch-writer", "args": "2", "state": "Rejected", "code": "INSTANCE_IS_WRITER", "message": "instance 2 is the writer", "acceptedAt": "2025-01-02T03:03:05Z"}]}`)}
	text := DescribeObject(o, nil, now, Style{})
	for _, want := range []string{"WriterReady", "127.32.0.1:5432", "switch-writer  2", "INSTANCE_IS_WRITER instance 2 is the writer", `"writer": "2"`, "Before", "(1m ago)"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if strings.Contains(text, `"instances"`) || strings.Index(text, "  2   rw") > strings.Index(text, "  10  ro") {
		t.Errorf("instances are not listed once, in the order of their ids:\n%s", text)
	}
	o.Status = json.RawMessage(`{"instances": 3, "conditions": []}`)
	if text := DescribeObject(o, nil, now, Style{}); !strings.Contains(text, `"instances": 3`) {
		t.Errorf("another status is not shown as it is:\n%s", text)
	}
}
