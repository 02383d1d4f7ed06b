package look

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/rollout"
	"github.com/pawl-dev/pawl/view"
)

// historyLabel is on the ConfigMaps with older records of a Rollout.
const historyLabel = "pawl.dev/rollout-history"

// rolloutHistory prints all records of a Rollout: those of its ConfigMaps, then those of its status.
func (a verbs) rolloutHistory(ctx context.Context, objects control.Objects, o control.Object) error {
	r, err := view.RolloutOf(o)
	if err != nil {
		return err
	}
	selector, err := control.ParseSelector(historyLabel + "=" + o.Name)
	if err != nil {
		return err
	}
	records := r.History
	for q := (control.Query{Kind: "ConfigMap", Namespace: o.Namespace, Selector: selector}); ; {
		page, err := objects.List(ctx, q)
		if err != nil {
			if fault.Of(err).Class == fault.Blocked { // without the right to read them, the newest are shown
				a.Hint("pawl: older records cannot be read: %v", err)
				break
			}
			return err
		}
		for _, kept := range page.Items {
			var content struct{ Data struct{ Records string } }
			var older []rollout.Record
			if json.Unmarshal(kept.Spec, &content) == nil && json.Unmarshal([]byte(content.Data.Records), &older) == nil {
				records = append(records, older...)
			}
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	slices.SortFunc(records, func(a, b rollout.Record) int { return cmp.Compare(a.Sequence, b.Sequence) })
	records = slices.CompactFunc(records, func(a, b rollout.Record) bool { return a.Sequence == b.Sequence })
	return a.Emit(records, nil, view.RolloutHistory(records, a.Style(a.Out)).String)
}

// watchRollout prints a line whenever something has changed, until the rollout has ended or needs
// somebody.
func (a verbs) watchRollout(ctx context.Context, b backend.Backend, objects control.Objects, ref control.Ref) error {
	last, ended := view.Rollout{}, false
	err := a.repeat(ctx, b, true, func() (any, []string, string, error) {
		o, err := objects.Get(ctx, ref)
		if err != nil {
			return nil, nil, "", err
		}
		last, err = view.RolloutOf(o)
		return last, []string{ref.String()}, last.Line(time.Now()), err
	}, func() bool {
		ended = last.Exit() != view.ExitActive
		return ended
	})
	switch {
	case fault.Of(err) == control.NotFound:
		a.Say("%s is gone", ref)
		return nil
	case err != nil:
		return err
	case ended:
		if last.Remedy != "" && last.Exit() != view.ExitDone {
			a.Hint("  remedy: %s", last.Remedy)
		}
		return cli.End(last.Exit())
	}
	return cli.End(view.ExitActive)
}
