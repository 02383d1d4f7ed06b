package runs

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/files"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/follow"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
)

type runOptions struct {
	cli.InputOptions
	subject, requestID, reason string
	labels                     map[string]string
	priority                   int
	wait                       time.Duration
	detach                     bool
}

func (a verbs) runCommand() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run FILE|FLOW",
		Short: "Start a run and follow it until it rests",
		Long: `Starts a run of a flow: of a file, or of a flow that is loaded by --flows or by
the server, by its name. On a local store that no other process owns, the run is
executed in this process; kill it at any moment and go on with pawl resume.

The command ends when the run has ended or is paused, when --wait is over, or on
Ctrl-C; the run itself is kept and goes on where it was.`,
		Example: `  pawl run create.yaml --input readers=2 --subject demo/default/c1
  pawl run create.yaml --input-file input.json --request-id change-4711
  pawl run CreateCluster --server http://127.0.0.1:7295 --detach`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.CompleteFlows,
		RunE: a.Verb(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			return a.start(ctx, args[0], o, cmd.Flags().Changed("wait"))
		}),
	}
	f := cmd.Flags()
	o.InputOptions.Flags(f)
	f.StringVar(&o.subject, "subject", "", "`kind/namespace/name` of what the run works on; one subject has one active run")
	f.StringVar(&o.requestID, "request-id", "", "the same subject, flow and `id` is one run")
	f.StringVar(&o.reason, "reason", "", "why, for history")
	f.StringToStringVar(&o.labels, "label", nil, "`key=value` to tell runs apart")
	f.IntVar(&o.priority, "priority", 0, "among the runs that wait for the same limit: higher `n`umbers start first, from -1000 to 1000; one point is worth a minute of waiting")
	f.BoolVarP(&o.detach, "detach", "d", false, "only start the run")
	cli.WaitFlag(cmd, &o.wait, cli.Forever, "follow the run at most this long")
	return cmd
}

// start is pawl run.
func (a verbs) start(ctx context.Context, what string, o runOptions, waitGiven bool) error {
	req := workflow.Request{Flow: what, Subject: o.subject, RequestID: o.requestID, Labels: o.labels, Priority: o.priority,
		Actor: workflow.Actor{Name: a.Actor(), Reason: o.reason}}
	var given []string
	if info, err := os.Stat(what); err == nil && info.IsDir() {
		return cli.FileWrong.Errorf("%s is a folder: name a file of it, or load it by --flows %s and name the flow", what, what)
	}
	if files.IsFile(what) {
		name, err := files.FlowName(what)
		if err != nil {
			return err
		}
		path, err := filepath.Abs(what)
		if err != nil {
			return err
		}
		req.Flow, given = name, []string{what}
		if a.Flags.Server == "" && !a.Target.Kubernetes {
			req.Labels = withLabel(req.Labels, backend.FileLabel, path)
		}
	}
	if req.RequestID == "" {
		req.RequestID = newRequestID()
	}
	if req.Subject == "" {
		req.Subject = a.RefOf("run", a.Target.NamespaceFlag, shortHash(req.RequestID)).String()
	}
	b, err := a.Open(ctx, cli.Sends, given...)
	if err != nil {
		return err
	}
	defer b.Close()
	if len(given) > 0 && a.Flags.Server != "" {
		if err := a.sameDefinition(ctx, b, what, req.Flow); err != nil {
			return err
		}
	}
	flow, err := b.Flow(ctx, flowFor(req.Flow, req.Subject))
	if err != nil {
		return err
	}
	if req.Input, err = o.Input(flow.Input, a.In); err != nil {
		return err
	}
	r, err := b.Start(ctx, req)
	if err != nil {
		return err
	}
	if o.detach {
		return a.Emit(r, []string{r.ID}, func() string { return "accepted " + view.Short(r.ID) + "\n" })
	}
	return follow.Follower{App: a.App}.Follow(ctx, b, follow.Reading{ID: r.ID, Wait: o.wait})
}

// sameDefinition refuses to start another definition than the file's.
func (a verbs) sameDefinition(ctx context.Context, b backend.Backend, file, name string) error {
	local, err := files.LoadFiles([]string{file})
	if err != nil {
		return err
	}
	mine, ok := local.Flow(name)
	if !ok {
		return cli.FileWrong.Errorf("%s defines no flow %s", file, name)
	}
	want, err := view.OfFlow(mine)
	if err != nil {
		return err
	}
	has, err := b.Flow(ctx, name)
	if fault.Of(err) == workflow.FlowUnknown {
		return cli.NotDefined.Errorf("the server has loaded no flow %s, and %s is not sent to it", name, file)
	}
	if err != nil {
		return err
	}
	if has.Hash != want.Hash {
		return cli.NotDefined.Errorf("%s: the file's definition is %.12s, the server's %.12s", name, want.Hash, has.Hash)
	}
	return nil
}

func withLabel(labels map[string]string, key, value string) map[string]string {
	if labels == nil {
		labels = map[string]string{}
	}
	labels[key] = value
	return labels
}

func shortHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:5]))
}
