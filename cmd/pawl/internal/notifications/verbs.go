// Package notifications has the verbs of pawl for notifications.
package notifications

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/notification"
	"github.com/pawl-dev/pawl/view"
)

// Commands returns the verbs.
func Commands(a *cli.App) []*cobra.Command { return []*cobra.Command{verbs{a}.notifyCommand()} }

type verbs struct{ *cli.App }

func (a verbs) notifyCommand() *cobra.Command {
	group := &cobra.Command{
		Use: "notify", Short: "See and test webhooks: list, test, dead, redeliver",
		Long: `A notification is an object of kind Notification: a URL, what it is told of, and the
secrets that sign. apply, get, describe, edit and delete take it as any other object.

A webhook that its receiver refuses is sent again, later each time. After its last
attempt it is dead: dead lists these, and redeliver sends them again.`,
		Example: "  pawl notify list\n  pawl notify test on-call\n  pawl notify redeliver on-call",
	}
	group.AddCommand(a.listCommand(), a.testCommand(), a.deadCommand(), a.redeliverCommand())
	return group
}

// verb makes a verb of one notification.
func (a verbs) verb(use, short, example string, args cobra.PositionalArgs, how cli.Access, do func(ctx context.Context, b backend.Backend, objects control.Objects, ref control.Ref, args []string) error) *cobra.Command {
	var namespace string
	cmd := &cobra.Command{
		Use: use, Short: short, Example: example, Args: args,
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			return a.CompleteKinds(cmd, append([]string{notification.Kind}, args...), typed)
		},
		RunE: a.Verb(func(ctx context.Context, _ *cobra.Command, args []string) error {
			b, err := a.Open(ctx, how)
			if err != nil {
				return err
			}
			defer b.Close()
			objects, err := b.Objects()
			if err != nil {
				return err
			}
			return do(ctx, b, objects, a.RefOf(notification.Kind, namespace, args[0]), args[1:])
		}),
	}
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "`namespace` of the notification (default: default)")
	return cmd
}

// row is a notification of a list.
type row struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	State     string    `json:"state,omitempty"` // empty: no server has seen it yet
	Sent      int64     `json:"sent"`
	Waiting   int       `json:"waiting"`
	Dead      int       `json:"dead"`
	LastSent  time.Time `json:"lastSent,omitzero"`
	Fault     string    `json:"fault,omitempty"`

	spec notification.Spec
}

func (a verbs) listCommand() *cobra.Command {
	var namespace string
	cmd := &cobra.Command{
		Use: "list", Short: "List notifications and what they sent", Example: "  pawl notify list\n  pawl notify list -o json", Args: cobra.NoArgs,
		RunE: a.Verb(func(ctx context.Context, _ *cobra.Command, _ []string) error {
			b, err := a.Open(ctx, cli.Looks)
			if err != nil {
				return err
			}
			defer b.Close()
			objects, err := b.Objects()
			if err != nil {
				return err
			}
			return a.list(ctx, objects, a.ListNamespace(namespace))
		}),
	}
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "`namespace` of the notifications (default: all)")
	return cmd
}

func (a verbs) list(ctx context.Context, objects control.Objects, namespace string) error {
	var rows []row
	for q := (control.Query{Kind: notification.Kind, Namespace: namespace}); ; {
		page, err := objects.List(ctx, q)
		if err != nil {
			return err
		}
		for _, o := range page.Items {
			s, err := notification.StatusOf(o)
			if err != nil {
				return notification.Invalid.Errorf("status of %s: %w", o.Ref, err)
			}
			r := row{Namespace: o.Namespace, Name: o.Name, State: s.State, Sent: s.Sent, Waiting: len(s.Waiting), Dead: len(s.Dead), LastSent: s.LastSent}
			if s.Fault != nil {
				r.Fault = string(s.Fault.Code)
			}
			_ = json.Unmarshal(o.Spec, &r.spec) // one that cannot be read leaves its columns empty
			rows = append(rows, r)
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	return cli.EmitList(a.App, rows, row.ref, "", []view.Column[row]{
		{Head: "NAMESPACE", Cell: func(r row) string { return r.Namespace }},
		{Head: "NAME", Cell: func(r row) string { return r.Name }},
		{Head: "STATE", Cell: func(r row) string { return r.State }, Health: row.health},
		{Head: "SENT", Cell: func(r row) string { return strconv.FormatInt(r.Sent, 10) }},
		{Head: "WAITING", Cell: func(r row) string { return strconv.Itoa(r.Waiting) }},
		{Head: "DEAD", Cell: func(r row) string { return strconv.Itoa(r.Dead) }},
		{Head: "LAST", Cell: func(r row) string { return moment(r.LastSent) }},
		{Head: "URL", Wide: true, Cell: func(r row) string { return r.spec.URL }},
		{Head: "EVENTS", Wide: true, Cell: func(r row) string { return strings.Join(r.spec.Events, ",") }},
		{Head: "FAULT", Cell: func(r row) string { return r.Fault }},
	})
}

func (r row) ref() string {
	return control.Ref{Kind: notification.Kind, Namespace: r.Namespace, Name: r.Name}.String()
}

func (r row) health() view.Health {
	if r.Fault != "" || r.State == notification.StateGone {
		return view.Degraded
	}
	return view.HealthOf(r.State)
}

func moment(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339)
}

func (a verbs) testCommand() *cobra.Command {
	var wait time.Duration
	cmd := a.verb("test NAME", "Send a webhook of type test, and tell what the receiver says", "  pawl notify test on-call", cobra.ExactArgs(1), cli.Reads,
		func(ctx context.Context, b backend.Backend, objects control.Objects, ref control.Ref, _ []string) error {
			token := control.NewUID()
			if _, err := annotate(ctx, objects, ref, notification.TestAnnotation, token); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(ctx, wait)
			defer cancel()
			changes := b.Changes(ctx, "")
			for {
				o, err := objects.Get(ctx, ref)
				if err == nil {
					status, err := notification.StatusOf(o)
					if err != nil {
						return notification.Invalid.Errorf("status of %s: %w", ref, err)
					}
					if status.Tested != nil && status.Tested.Token == token {
						return a.tested(ref, status)
					}
				} else if ctx.Err() == nil {
					return err
				}
				select {
				case <-ctx.Done():
					a.Hint("no server has sent the test so far; it is sent when one serves the notification")
					return cli.End(view.ExitActive)
				case <-changes:
				}
			}
		})
	cmd.Flags().DurationVar(&wait, "wait", 20*time.Second, "how long to wait for the answer")
	return cmd
}

// tested tells the answer to a test.
func (a verbs) tested(ref control.Ref, status notification.Status) error {
	t := status.Tested
	if t.Error == "" {
		return a.Emit(t, []string{t.ID}, func() string { return ref.String() + " accepted " + t.ID + "\n" })
	}
	kind := notification.Undelivered
	if f := status.Fault; f != nil {
		if known, ok := fault.Lookup(string(f.Code)); ok {
			kind = known
		}
	}
	return kind.Errorf("%s: %s", ref, t.Error)
}

func (a verbs) deadCommand() *cobra.Command {
	return a.verb("dead NAME", "List the events that were given up, the oldest first", "  pawl notify dead on-call -o json", cobra.ExactArgs(1), cli.Looks,
		func(ctx context.Context, _ backend.Backend, objects control.Objects, ref control.Ref, _ []string) error {
			_, status, err := read(ctx, objects, ref)
			if err != nil {
				return err
			}
			type dead = notification.Delivery
			return cli.EmitList(a.App, status.Dead, func(d dead) string { return d.ID }, "no dead events", []view.Column[dead]{
				{Head: "GIVEN UP", Cell: func(d dead) string { return moment(d.DiedAt) }},
				{Head: "TYPE", Cell: func(d dead) string { return d.Event.Type }},
				{Head: "RUN", Cell: func(d dead) string { return view.Short(d.Event.Run) }},
				{Head: "ATTEMPTS", Cell: func(d dead) string { return strconv.Itoa(d.Attempts) }},
				{Head: "ID", Cell: func(d dead) string { return d.ID }},
				{Head: "ERROR", Cell: func(d dead) string { return d.Error }},
			})
		})
}

func (a verbs) redeliverCommand() *cobra.Command {
	return a.verb("redeliver NAME [ID]", "Send events again that were given up: one, or all",
		"  pawl notify redeliver on-call", cobra.RangeArgs(1, 2), cli.Reads,
		func(ctx context.Context, _ backend.Backend, objects control.Objects, ref control.Ref, args []string) error {
			_, status, err := read(ctx, objects, ref)
			if err != nil {
				return err
			}
			id, n := "all", len(status.Dead)
			if len(args) == 1 {
				id, n = args[0], 1
				if !slices.ContainsFunc(status.Dead, func(d notification.Delivery) bool { return d.ID == id }) {
					return cli.Usage.Errorf("%s has no dead event %s: `pawl notify dead %s` lists them", ref, id, ref.Name)
				}
			}
			if n == 0 {
				a.Say("%s has no dead events", ref)
				return nil
			}
			o, err := annotate(ctx, objects, ref, notification.RedeliverAnnotation, id)
			if err != nil {
				return err
			}
			return a.Emit(o, []string{ref.String()}, func() string { return ref.String() + " sends again: " + strconv.Itoa(n) + "\n" })
		})
}

func read(ctx context.Context, objects control.Objects, ref control.Ref) (o control.Object, s notification.Status, err error) {
	if o, err = objects.Get(ctx, ref); err != nil {
		return o, s, err
	}
	if s, err = notification.StatusOf(o); err != nil {
		return o, s, notification.Invalid.Errorf("status of %s: %w", ref, err)
	}
	return o, s, nil
}

func annotate(ctx context.Context, objects control.Objects, ref control.Ref, key, value string) (control.Object, error) {
	return control.Modify(ctx, objects, ref, func(o *control.Object) error {
		if o.Annotations == nil {
			o.Annotations = map[string]string{}
		}
		o.Annotations[key] = value
		return nil
	})
}
