package action

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/workflow"
)

// BenchmarkExec is one exec step, with and without the check of the lease in the child process.
func BenchmarkExec(b *testing.B) {
	all, err := Standard(Options{Only: []string{"exec"}, StateDir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	var do workflow.Func
	for _, a := range all {
		if a.Name == "exec" {
			do = a.Do
		}
	}
	for name, lease := range map[string]func() time.Duration{"checked": func() time.Duration { return time.Hour }, "unchecked": nil} {
		for what, with := range map[string]string{"command": `{"command": ["true"]}`, "shell": `{"shell": "exec true"}`} {
			b.Run(what+"/"+name, func(b *testing.B) {
				for b.Loop() {
					task := workflow.NewTask(b.Context(), workflow.TaskFacts{Run: "r1", Step: "S", Attempt: 1, Lease: lease, With: json.RawMessage(with)})
					if o := do(b.Context(), task); !o.IsDone() {
						b.Fatal(o)
					}
				}
			})
		}
	}
}
