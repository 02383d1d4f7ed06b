package sim

import "fmt"

// causeKind is what the judge tells the causes of recoveries apart by.
type causeKind int

const (
	changed causeKind = iota // a command, a fault, or any other event
	ended                    // a server that had a role is gone
	better                   // the database looks for better places, as after another recovery
)

// cause is why a recovery begins. The zero value: there is no reason for one.
type cause struct {
	kind causeKind
	text string // for the transcript
}

func (c cause) String() string { return c.text }

func because(kind causeKind, format string, args ...any) cause {
	return cause{kind, fmt.Sprintf(format, args...)}
}
