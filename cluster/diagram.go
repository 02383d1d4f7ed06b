package cluster

import (
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl/machine"
)

// Diagram returns the lifecycle as a Mermaid state diagram. It highlights the state
// at; empty: none.
func Diagram(at machine.State) string {
	var b strings.Builder
	b.WriteString("stateDiagram-v2\n    [*] --> Created\n")
	for _, e := range Edges {
		fmt.Fprintf(&b, "    %s --> %s: %s\n", e.From, e.To, e.Event)
	}
	b.WriteString("    Destroyed --> [*]\n    classDef transient stroke-dasharray: 4\n")
	for _, s := range States {
		if Transient(s) {
			fmt.Fprintf(&b, "    class %s transient\n", s)
		}
	}
	if at != "" {
		fmt.Fprintf(&b, "    classDef here stroke-width:4px\n    class %s here\n", at)
	}
	return b.String()
}

// EdgeTable returns the lifecycle as a Markdown table. A plus marks the edges that
// Pawl added to the state machine of 2016.
func EdgeTable() string {
	var b strings.Builder
	b.WriteString("| from | event | to | fired by |\n|---|---|---|---|\n")
	for _, e := range Edges {
		plus := ""
		if e.Added {
			plus = " +"
		}
		fmt.Fprintf(&b, "| %s | %s%s | %s | %s |\n", e.From, e.Event, plus, e.To, e.FiredBy)
	}
	return b.String()
}
