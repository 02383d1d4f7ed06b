package clusters

import (
	"context"
	"fmt"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
)

// run runs a tool against the database of the cluster.
func (p *pass) run(ctx context.Context, call fdb.Call) fdb.Result {
	at, err := p.endpoint()
	if err != nil {
		return fdb.Result{Outcome: fdb.Refused, Reason: fdb.DatabaseUnreachable, Text: fault.Message(err)}
	}
	return p.database.Run(ctx, at, call).Result
}

// reasonOf is the reason of a result as a condition shows it.
func reasonOf(r fdb.Result) string {
	if r.Reason == "" {
		return "ToolFailed"
	}
	return string(r.Reason)
}

// event tells people what was done to the cluster.
func (p *pass) event(reason, format string, args ...any) {
	p.objects.Tell(p.stored, port.Event{Reason: reason, Message: fmt.Sprintf(format, args...)})
}
