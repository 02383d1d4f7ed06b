package runs

import (
	"cmp"
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

func (a verbs) limitsCommand() *cobra.Command {
	group := &cobra.Command{
		Use: "limits", Short: "Show limits of runs and steps; set how many runs of a key run at once",
		Long: `A flow names keys and numbers in limits.runs: so many runs of a key run at once, in
all workers. A number that is set here counts in place of those of the flows, for all
runs that wait and that come. Runs that run already go on. Rates and limits of steps
are listed too, and are set in flows only.`,
		Example: "  pawl limits list\n  pawl limits set provider/aws 5\n  pawl limits reset provider/aws",
	}
	group.AddCommand(
		&cobra.Command{
			Use: "list", Short: "List the keys of active runs, and those that are set", Example: "  pawl limits list", Args: cobra.NoArgs,
			RunE: a.Verb(func(ctx context.Context, _ *cobra.Command, _ []string) error {
				return a.withLimits(ctx, cli.Looks, a.listLimits)
			}),
		},
		&cobra.Command{
			Use: "set KEY NUMBER", Short: "Set the number of a key; 0: no run of it starts", Example: "  pawl limits set provider/aws 5", Args: cobra.ExactArgs(2),
			ValidArgsFunction: a.completeLimits,
			RunE: a.Verb(func(ctx context.Context, _ *cobra.Command, args []string) error {
				n, err := strconv.Atoi(args[1])
				if err != nil || n < 0 {
					return runtype.InputInvalid.Errorf("%q is no number of runs: give a whole number from 0", args[1])
				}
				return a.withLimits(ctx, cli.Sends, func(ctx context.Context, api *client.Client) error {
					if err := api.SetLimit(ctx, client.SetLimitRequest{Key: args[0], AtOnce: n}); err != nil {
						return err
					}
					return a.Emit(view.Limit{Key: args[0], AtOnce: n, Set: true}, []string{args[0]}, func() string { return fmt.Sprintf("%s: %d at once\n", args[0], n) })
				})
			}),
		},
		&cobra.Command{
			Use: "reset KEY", Short: "Let the numbers of the flows count again", Example: "  pawl limits reset provider/aws", Args: cobra.ExactArgs(1),
			ValidArgsFunction: a.completeLimits,
			RunE: a.Verb(func(ctx context.Context, _ *cobra.Command, args []string) error {
				return a.withLimits(ctx, cli.Sends, func(ctx context.Context, api *client.Client) error {
					if err := api.ResetLimit(ctx, client.ResetLimitParams{Key: args[0]}); err != nil {
						return err
					}
					return a.Emit(view.Limit{Key: args[0]}, []string{args[0]}, func() string { return args[0] + ": as the flows say\n" })
				})
			}),
		})
	return group
}

// withLimits opens the store or server and calls do.
func (a verbs) withLimits(ctx context.Context, how cli.Access, do func(context.Context, *client.Client) error) error {
	b, err := a.Open(ctx, how)
	if err != nil {
		return err
	}
	defer b.Close()
	switch b := b.(type) {
	case *backend.Remote:
		return do(ctx, b.API)
	case *backend.Local:
		return do(ctx, b.API)
	}
	return workflow.LimitsNotKept.Errorf("Run objects have no limits")
}

func (a verbs) listLimits(ctx context.Context, api *client.Client) error {
	all := view.LimitPage{Items: []view.Limit{}}
	for params := (client.ListLimitsParams{Limit: 500}); ; {
		page, err := api.ListLimits(ctx, params)
		if err != nil {
			return err
		}
		all.Items = append(all.Items, page.Items...)
		if params.Cursor = page.Next; page.Next == "" {
			break
		}
	}
	var keys []string
	for _, l := range all.Items {
		keys = append(keys, l.Key)
	}
	return a.Emit(all, keys, func() string {
		return view.TableOf(all.Items, []view.Column[view.Limit]{
			{Head: "KEY", Cell: func(l view.Limit) string { return l.Key }},
			{Head: "OF", Cell: func(l view.Limit) string { return cmp.Or(l.Of, "runs") }},
			{Head: "AT ONCE", Cell: func(l view.Limit) string {
				if l.AtOnce == 0 && l.Rate != "" {
					return ""
				}
				return strconv.Itoa(l.AtOnce)
			}},
			{Head: "RATE", Cell: func(l view.Limit) string { return l.Rate }},
			{Head: "RUNNING", Cell: func(l view.Limit) string { return strconv.Itoa(l.Running) }},
			{Head: "WAITING", Cell: func(l view.Limit) string { return strconv.Itoa(l.Waiting) }},
			{Head: "SET BY", Cell: func(l view.Limit) string { return map[bool]string{true: "limits", false: "flow"}[l.Set] }},
		}).Text(a.Style(a.Out))
	})
}

func (a verbs) completeLimits(cmd *cobra.Command, args []string, _ string) (keys []string, _ cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	_ = a.withLimits(cmd.Context(), cli.Looks, func(ctx context.Context, api *client.Client) error {
		page, err := api.ListLimits(ctx, client.ListLimitsParams{Limit: 500})
		for _, l := range page.Items {
			keys = append(keys, l.Key)
		}
		return err
	})
	return keys, cobra.ShellCompDirectiveNoFileComp
}
