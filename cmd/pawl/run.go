package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/machine/machinefile"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
)

type runOptions struct {
	inputOptions
	subject, requestID, reason string
	labels                     map[string]string
	wait                       time.Duration
	detach                     bool
}

func (a *app) runCommand() *cobra.Command {
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
		ValidArgsFunction: a.completeFlows,
		RunE: a.verb(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			return a.start(ctx, args[0], o, cmd.Flags().Changed("wait"))
		}),
	}
	f := cmd.Flags()
	o.inputOptions.flags(f)
	f.StringVar(&o.subject, "subject", "", "`kind/namespace/name` of what the run works on; one subject has one active run")
	f.StringVar(&o.requestID, "request-id", "", "the same subject, flow and `id` is one run")
	f.StringVar(&o.reason, "reason", "", "why, for history")
	f.StringToStringVar(&o.labels, "label", nil, "`key=value` to tell runs apart")
	f.BoolVarP(&o.detach, "detach", "d", false, "only start the run")
	waitFlag(cmd, &o.wait, forever, "follow the run at most this long")
	return cmd
}

// start is pawl run.
func (a *app) start(ctx context.Context, what string, o runOptions, waitGiven bool) error {
	req := workflow.Request{Flow: what, Subject: o.subject, RequestID: o.requestID, Labels: o.labels,
		Actor: workflow.Actor{Name: a.actor(), Reason: o.reason}}
	var files []string
	if isFile(what) {
		name, err := flowName(what)
		if err != nil {
			return err
		}
		path, err := filepath.Abs(what)
		if err != nil {
			return err
		}
		req.Flow, files = name, []string{what}
		if a.flags.server == "" && !a.target.kubernetes {
			req.Labels = withLabel(req.Labels, backend.FileLabel, path)
		}
	}
	if req.RequestID == "" {
		req.RequestID = newRequestID()
	}
	if req.Subject == "" {
		req.Subject = a.refOf("run", a.target.namespaceFlag, shortHash(req.RequestID)).String()
	}
	b, err := a.open(ctx, sends, files...)
	if err != nil {
		return err
	}
	defer b.Close()
	if len(files) > 0 && a.flags.server != "" {
		if err := a.sameDefinition(ctx, b, what, req.Flow); err != nil {
			return err
		}
	}
	flow, err := b.Flow(ctx, flowFor(req.Flow, req.Subject))
	if err != nil {
		return err
	}
	if req.Input, err = o.input(flow.Input, a.in); err != nil {
		return err
	}
	r, err := b.Start(ctx, req)
	if err != nil {
		return err
	}
	if o.detach {
		return a.emit(r, []string{r.ID}, func() string { return "accepted " + view.Short(r.ID) + "\n" })
	}
	return a.follow(ctx, b, reading{id: r.ID, wait: o.wait})
}

// flowFor names the flow that serves a subject, for Backend.Flow.
func flowFor(flow, subject string) string {
	kind, _, _ := strings.Cut(subject, "/")
	return kind + "/" + flow
}

// sameDefinition refuses to start another definition than the file's.
func (a *app) sameDefinition(ctx context.Context, b backend.Backend, file, name string) error {
	local, err := loadFiles([]string{file})
	if err != nil {
		return err
	}
	mine, ok := local.flow(name)
	if !ok {
		return FileWrong.Errorf("%s defines no flow %s", file, name)
	}
	want, err := view.OfFlow(mine)
	if err != nil {
		return err
	}
	has, err := b.Flow(ctx, name)
	if fault.Of(err) == workflow.FlowUnknown {
		return NotDefined.Errorf("the server has loaded no flow %s, and %s is not sent to it", name, file)
	}
	if err != nil {
		return err
	}
	if has.Hash != want.Hash {
		return NotDefined.Errorf("%s: the file's definition is %.12s, the server's %.12s", name, want.Hash, has.Hash)
	}
	return nil
}

func isFile(name string) bool {
	ext := filepath.Ext(name)
	if ext == ".yaml" || ext == ".yml" {
		return true
	}
	info, err := os.Stat(name)
	return err == nil && !info.IsDir()
}

// flowName reads the name of a file's flow; the load finds what else is wrong with it.
func flowName(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", FileWrong.Errorf("%w", unwrapPath(err))
	}
	if machinefile.IsMachine(data) {
		return "", FileWrong.Errorf("%s holds a machine: pawl apply an object of its kind on a server that loads it with --machines", path)
	}
	var doc struct {
		FlowName  string `yaml:"flowName"`
		GroupName string `yaml:"groupName"`
	}
	err = yaml.Unmarshal(data, &doc)
	switch {
	case doc.FlowName != "":
		return doc.FlowName, nil
	case err == nil && doc.GroupName != "":
		return "", FileWrong.Errorf("%s holds a step group: run a flow that uses it", path)
	}
	if _, err := loadFiles([]string{path}); err != nil {
		return "", err
	}
	return "", FileWrong.Errorf("%s holds no flow: it has no flowName", path)
}

// unwrapPath keeps "open x: no such file or directory" as it is.
func unwrapPath(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p
	}
	return err
}

func withLabel(labels map[string]string, key, value string) map[string]string {
	if labels == nil {
		labels = map[string]string{}
	}
	labels[key] = value
	return labels
}

func newRequestID() string { return "cli-" + strings.ToLower(rand.Text()[:16]) }

func shortHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:5]))
}
