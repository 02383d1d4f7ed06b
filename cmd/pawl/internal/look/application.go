package look

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/rollout"
	"github.com/pawl-dev/pawl/view"
)

// rolloutOf is the reference of the Rollout that an Application drives.
func rolloutOf(o control.Ref) control.Ref {
	return control.Ref{Kind: "rollouts.pawl.dev", Namespace: o.Namespace, Name: o.Name}
}

// readApplication reads an Application with its revisions and its Rollout.
func readApplication(ctx context.Context, b backend.Backend, objects control.Objects, o control.Object) (view.Application, error) {
	var revisions []control.Object
	for q := (control.Query{Kind: "applicationrevisions.pawl.dev", Namespace: o.Namespace}); ; {
		page, err := objects.List(ctx, q)
		if err != nil {
			return view.Application{}, err
		}
		for _, r := range page.Items {
			if r.Owner != nil && r.Owner.UID == o.UID {
				revisions = append(revisions, r)
			}
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	r, err := readRollout(ctx, b, objects, rolloutOf(o.Ref))
	switch {
	case errors.Is(err, control.NotFound):
		return view.ApplicationOf(o, revisions, nil)
	case err != nil:
		return view.Application{}, err
	}
	return view.ApplicationOf(o, revisions, &r)
}

func (a verbs) describeApplication(ctx context.Context, b backend.Backend, objects control.Objects, o control.Object) error {
	v, err := readApplication(ctx, b, objects, o)
	if err != nil {
		return err
	}
	return a.Emit(v, []string{o.Ref.String()}, func() string { return view.DescribeApplication(v, time.Now(), a.Style(a.Out)) })
}

// applicationHistory prints the revisions of an Application, and all records of its Rollout.
func (a verbs) applicationHistory(ctx context.Context, b backend.Backend, objects control.Objects, o control.Object) error {
	v, err := readApplication(ctx, b, objects, o)
	if err != nil {
		return err
	}
	records := []rollout.Record{}
	if v.Rollout != nil {
		r, err := objects.Get(ctx, rolloutOf(o.Ref))
		if err != nil {
			return err
		}
		if records, err = backend.RolloutRecords(ctx, objects, r); err != nil {
			return err
		}
	}
	type history struct {
		Revisions []view.ApplicationRevision `json:"revisions"`
		Records   []rollout.Record           `json:"records"`
	}
	return a.Emit(history{v.Revisions, records}, nil, func() string { return view.ApplicationHistory(v, records, a.Style(a.Out)) })
}

// watchApplication prints a line whenever something has changed, until the newest revision is reached or
// its Rollout needs somebody.
func (a verbs) watchApplication(ctx context.Context, b backend.Backend, objects control.Objects, ref control.Ref) error {
	var last view.Application
	err := a.repeat(ctx, b, true, func() (any, []string, cli.Drawing, error) {
		o, err := objects.Get(ctx, ref)
		if err == nil {
			last, err = readApplication(ctx, b, objects, o)
		}
		return last, []string{ref.String()}, cli.Fixed(last.Line(time.Now())), err
	}, func() bool { return last.Exit() != view.ExitActive })
	switch {
	case errors.Is(err, control.NotFound):
		a.Say("%s is gone", ref)
		return nil
	case err != nil:
		return err
	}
	if last.Rollout != nil && last.Rollout.Remedy != "" && last.Exit() > view.ExitDone {
		a.Hint("  remedy: %s", last.Rollout.Remedy)
	}
	return cli.End(last.Exit())
}
