package backend

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/view"
)

// Logs implements Runs.
func (r *Remote) Logs(ctx context.Context, id string, of LogsOf, emit func([]view.LogLine) error) error {
	if of.Follow {
		return r.followLogs(ctx, id, of, emit)
	}
	params := client.RunLogsParams{Step: of.Step, Since: of.Since, Tail: of.Tail}
	for {
		page, err := r.API.RunLogs(ctx, id, params)
		if err == nil {
			err = emit(page.Items)
		}
		if err != nil || page.Next == "" {
			return err
		}
		params.Cursor, params.Tail = page.Next, 0
	}
}

// followLogs reads the stream, and goes on where it was after the connection broke.
func (r *Remote) followLogs(ctx context.Context, id string, of LogsOf, emit func([]view.LogLine) error) error {
	params := client.RunLogStreamParams{Step: of.Step, Since: of.Since, Tail: of.Tail}
	for began := false; ; {
		for e, err := range r.API.RunLogStream(ctx, id, params) {
			if err != nil {
				if !began || fault.Of(err) != client.Unreachable {
					return err
				}
				break
			}
			began = true
			if err := emit(e.Lines); err != nil || e.End {
				return err
			}
			if params.After = e.Position; params.After != "" {
				params.Tail = 0
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(reconnectPause):
		}
	}
}
