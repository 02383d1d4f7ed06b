package clusters

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/view"
)

const settleEvery = 200 * time.Millisecond // poll interval of --wait

// settle prints the answer to a change, and with --wait follows the operation
// until it ends.
func (a verbs) settle(ctx context.Context, api *client.Client, done client.Accepted, wait time.Duration) error {
	if wait == 0 || done.Operation == nil {
		return a.Emit(done, []string{done.Cluster.Name}, func() string { return view.AcceptedLine(done.Cluster, done.Operation) })
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	printed := ""
	printState := func(c view.Cluster) {
		if line := view.WaitingLine(c, time.Now()); line != printed {
			a.Hint("%s", line)
			printed = line
		}
	}
	ticker := time.NewTicker(settleEvery)
	defer ticker.Stop()
	for {
		op, err := api.GetOperation(ctx, done.Operation.ID)
		if err != nil {
			return waitEnded(ctx, err)
		}
		c, err := api.GetCluster(ctx, done.Cluster.ID)
		if err != nil {
			return waitEnded(ctx, err)
		}
		printState(c)
		if op.Status != "open" && (op.Status == "done" || c.State != cluster.Expunging) { // cleanup of a failed operation comes first
			done = client.Accepted{Cluster: c, Operation: &op}
			if err := a.Emit(done, []string{c.Name}, func() string { return view.SettledLine(c, op) }); err != nil {
				return err
			}
			return cli.End(exitOf(c, op))
		}
		select {
		case <-ctx.Done():
			return waitEnded(ctx, ctx.Err())
		case <-ticker.C:
		}
	}
}

// waitEnded reports that the wait ended before the operation.
func waitEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return cli.Ended(view.ExitActive)
	}
	return err
}

// exitOf is the exit code of a wait for an operation.
func exitOf(c view.Cluster, op view.Operation) int {
	switch {
	case op.Status == "done":
		return view.ExitDone
	case c.State == cluster.Alert, c.State == cluster.Expunge:
		return view.ExitRemedy
	default:
		return view.ExitFailed
	}
}
