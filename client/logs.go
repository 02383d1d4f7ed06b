package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"time"

	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// RunLogStreamParams select the lines of a stream.
type RunLogStreamParams struct {
	Step  string    // instance name; empty: all steps
	Since time.Time // only lines that are not older; zero: all
	Tail  int       // begin with so many of the newest lines; 0: with the oldest
	After string    // Position behind which the stream begins; it has no tail then
}

// RunLogStreamEvent is a part of a stream of lines.
type RunLogStreamEvent struct {
	Lines    []view.LogLine
	Position string        // behind the lines; go on there after the connection broke
	End      bool          // the run, or the step, has ended: the stream ends
	Phase    runtype.Phase // of the run at the end
}

// RunLogStream reads GET /v1/runs/{id}/logs/stream until the run or the step has ended, ctx ends, the
// caller stops or the connection breaks, which is the last error.
func (c *Client) RunLogStream(ctx context.Context, id string, params RunLogStreamParams) iter.Seq2[RunLogStreamEvent, error] {
	r := request{method: http.MethodGet, path: path("/v1/runs/{id}/logs/stream", id)}
	r.addQuery("step", params.Step)
	r.addQuery("since", params.Since)
	r.addQuery("tail", params.Tail)
	return func(yield func(RunLogStreamEvent, error) bool) {
		for e, err := range c.stream(ctx, r, EventsParams{After: params.After}) {
			out := RunLogStreamEvent{Position: e.ID, End: e.Type == "end"}
			switch {
			case err != nil:
				yield(out, err)
				return
			case e.Type == "":
				continue
			}
			var data struct {
				Lines []view.LogLine
				Phase runtype.Phase
			}
			err := json.Unmarshal(e.Data, &data)
			out.Lines, out.Phase = data.Lines, data.Phase
			if !yield(out, err) || err != nil || out.End {
				return
			}
		}
	}
}
