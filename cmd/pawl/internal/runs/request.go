package runs

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/bulk"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/follow"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// requestTimeout is how long a verb waits for the run's worker to carry out its request.
const requestTimeout = 10 * time.Second

// requestOptions are those of every request to a run.
type requestOptions struct {
	reason, requestID string
	revision          int64
	wait              time.Duration
}

func (o *requestOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.reason, "reason", "", "why, for history")
	f.StringVar(&o.requestID, "request-id", "", "the same `id` is accepted once")
	f.Int64Var(&o.revision, "revision", 0, "refuse the request if the run has another `revision`")
}

func (a verbs) newRequest(o requestOptions) workflow.RunRequest {
	req := workflow.RunRequest{Actor: workflow.Actor{Name: a.Actor(), Reason: o.reason, RequestID: o.requestID, Revision: o.revision}}
	if req.RequestID == "" {
		req.RequestID = newRequestID()
	}
	return req
}

func (a verbs) pauseCommand() *cobra.Command {
	var o requestOptions
	var all selection
	cmd := &cobra.Command{
		Use: "pause RUN", Short: "Pause a run, or many: their running attempts finish",
		Long:              "Pauses a run when its running attempts have finished.\n" + manyText,
		Example:           "  pawl pause gk3v --reason \"disk is being replaced\"\n  pawl pause -l region=eu --reason \"the provider is away\"",
		Args:              all.args(1, 0, 0),
		ValidArgsFunction: a.CompleteRuns,
		RunE: a.Verb(func(ctx context.Context, _ *cobra.Command, args []string) error {
			if all.many {
				return a.bulk(ctx, all, o, bulk.Spec{Verb: runtype.VerbPause})
			}
			return a.request(ctx, args[0], runtype.VerbPause, a.newRequest(o), stays)
		}),
	}
	o.flags(cmd)
	all.flags(a, cmd)
	return cmd
}

func (a verbs) resumeCommand() *cobra.Command {
	var o requestOptions
	var all selection
	var from, definition string
	cmd := &cobra.Command{
		Use: "resume RUN", Short: "Go on with a paused run, or with many, or with one whose process was killed",
		Long: `Goes on with a paused run. On a local store that no other process owns the run
is executed in this process and followed until it rests; this is also how a run
goes on whose process was killed.
` + manyText,
		Example:           "  pawl resume gk3v\n  pawl resume --flow Deploy --fault DISK_FULL --reason \"disks were replaced\"\n  pawl resume gk3v --from failed --wait 10m\n  pawl resume gk3v --from PrepareStorage --reason \"storage was replaced\"",
		Args:              all.args(1, 0, 0),
		ValidArgsFunction: a.CompleteRuns,
		RunE: a.Verb(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			if all.many {
				return a.bulk(ctx, all, o, bulk.Spec{Verb: runtype.VerbResume, From: workflow.From(from), Definition: definition})
			}
			req := a.newRequest(o)
			req.From, req.Definition = workflow.From(from), definition
			return a.request(ctx, args[0], runtype.VerbResume, req, followRun(cmd, o.wait))
		}),
	}
	o.flags(cmd)
	cmd.Flags().StringVar(&from, "from", "", "failed, first, or the name of a `step` (default: what the flow says)")
	cmd.Flags().StringVar(&definition, "on-definition", "", "with which definition it goes on: old (its own) or new (the one that is loaded); default: what onChange of the flow says")
	cli.WaitFlag(cmd, &o.wait, cli.Forever, "follow the run at most this long")
	all.flags(a, cmd)
	return cmd
}

func (a verbs) cancelCommand() *cobra.Command {
	var o requestOptions
	var all selection
	var undo, drop, giveUp bool
	cmd := &cobra.Command{
		Use: "cancel RUN", Short: "Stop a run, or many: keep it, undo it or drop it",
		Long: `Without a flag the run stops and keeps what is done; it can be resumed.
--undo takes back what is done, newest first; --drop keeps it. Both end the run.
` + manyText,
		Example:           "  pawl cancel b7qd --undo --reason \"wrong class\"\n  pawl cancel --flow Import -l tenant=t7 --drop --dry-run\n  pawl cancel b7qd --undo --give-up --reason \"volume is gone\"",
		Args:              all.args(1, 0, 0),
		ValidArgsFunction: a.CompleteRuns,
		RunE: a.Verb(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			req := a.newRequest(o)
			req.Mode, req.GiveUp = runtype.Hold, giveUp
			switch {
			case undo:
				req.Mode = runtype.Undo
			case drop:
				req.Mode = runtype.Drop
			}
			if giveUp && (!undo || o.reason == "") {
				return cli.Usage.Errorf("--give-up leaves steps that could not be taken back: it goes with --undo and --reason")
			}
			if all.many {
				return a.bulk(ctx, all, o, bulk.Spec{Verb: runtype.VerbCancel, Mode: req.Mode, GiveUp: giveUp})
			}
			if req.Mode == runtype.Hold {
				return a.request(ctx, args[0], runtype.VerbCancel, req, stays)
			}
			return a.cancel(ctx, args[0], req, o.wait)
		}),
	}
	o.flags(cmd)
	f := cmd.Flags()
	f.BoolVar(&undo, "undo", false, "take back what is done, then end")
	f.BoolVar(&drop, "drop", false, "keep what is done and end")
	f.BoolVar(&giveUp, "give-up", false, "leave an undo that failed as it is, and list what is left")
	cli.WaitFlag(cmd, &o.wait, cli.Forever, "wait for the end at most this long")
	all.flags(a, cmd)
	cmd.MarkFlagsMutuallyExclusive("undo", "drop")
	return cmd
}

func (a verbs) skipCommand() *cobra.Command {
	var o requestOptions
	var all selection
	var output string
	var force bool
	cmd := &cobra.Command{
		Use: "skip RUN STEP", Short: "Skip a failed or waiting step of a run, or of many",
		Long: `Skips a failed or waiting step. A step that is not skippable needs --force.
` + manyText + `
A bulk takes STEP alone. Without it, it skips in each run the step that its fault names.`,
		Example:           "  pawl skip gk3v Notify --reason \"pager is down\"\n  pawl skip Notify --flow Deploy --fault PAGER_AWAY --yes\n  pawl skip gk3v Measure --force --output-data '{\"lag\":0}' --reason \"measured by hand\"",
		Args:              all.args(2, 0, 1),
		ValidArgsFunction: a.CompleteRunSteps,
		RunE: a.Verb(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			req := a.newRequest(o)
			if req.Force = force; !all.many {
				req.Step = args[1]
			} else if len(args) > 0 {
				req.Step = args[0]
			}
			if output != "" {
				if !json.Valid([]byte(output)) {
					return cli.Usage.Errorf("--output-data %s is no JSON", output)
				}
				req.Output = json.RawMessage(output)
			}
			if all.many {
				return a.bulk(ctx, all, o, bulk.Spec{Verb: runtype.VerbSkip, Step: req.Step, Force: force, Output: req.Output})
			}
			return a.request(ctx, args[0], runtype.VerbSkip, req, followRun(cmd, o.wait))
		}),
	}
	o.flags(cmd)
	cmd.Flags().StringVar(&output, "output-data", "", "`JSON` that stands for the step's output")
	cmd.Flags().BoolVar(&force, "force", false, "also if the step is not skippable")
	cli.WaitFlag(cmd, &o.wait, cli.Forever, "follow the run at most this long")
	all.flags(a, cmd)
	return cmd
}

// followUp says what a verb does after its request is carried out.
type followUp struct {
	follow bool          // the run may go on: execute it here if nobody else does
	watch  bool          // follow it even if someone else executes it
	wait   time.Duration // at most
}

var stays = followUp{}

func followRun(cmd *cobra.Command, wait time.Duration) followUp {
	return followUp{follow: true, watch: cmd.Flags().Changed("wait"), wait: wait}
}

// request sends a request to a run, waits until it is carried out, and prints the result.
func (a verbs) request(ctx context.Context, id string, verb runtype.Verb, req workflow.RunRequest, w followUp) error {
	b, err := a.Open(ctx, cli.Sends)
	if err != nil {
		return err
	}
	defer b.Close()
	before, err := b.Run(ctx, id)
	if err != nil {
		return err
	}
	if err := b.Request(ctx, before.ID, verb, req); err != nil {
		return err
	}
	// A run that a person has paused stays so when one of its steps is skipped.
	held := verb == runtype.VerbSkip && before.Phase == runtype.Paused && (before.Fault == nil || before.Fault.Step != req.Step)
	if w.follow && !held && (w.watch || b.Alone()) {
		return follow.Follower{App: a.App}.Follow(ctx, b, follow.Reading{ID: before.ID, After: before.Revision, Wait: w.wait, Since: &before, Request: req.RequestID})
	}
	r, done, err := a.awaitRequest(ctx, b, before, req.RequestID)
	if err != nil {
		return err
	}
	err = a.Emit(r, []string{r.ID}, func() string {
		if !done {
			return "accepted; the worker of the run has not carried it out yet\n"
		}
		return strings.Join(append([]string{requestText(verb, req, r)}, view.Standing(r, time.Now(), a.Style(a.Out))...), "\n") + "\n"
	})
	if err == nil && !done {
		return cli.End(view.ExitActive)
	}
	return err
}

func requestText(verb runtype.Verb, req workflow.RunRequest, r view.Run) string {
	id := view.Short(r.ID)
	switch verb {
	case runtype.VerbResume:
		return "resumed " + id
	case runtype.VerbSkip:
		return "skipped " + req.Step
	case runtype.VerbPause:
		if r.Phase != runtype.Paused {
			return "pausing " + id + " when its running attempts have finished"
		}
		return "paused " + id
	default:
		return "stopped " + id
	}
}

// awaitRequest waits until a request was carried out or refused.
func (a verbs) awaitRequest(ctx context.Context, b backend.Runs, before view.Run, request string) (view.Run, bool, error) {
	if err := b.Advance(ctx, before.ID); err != nil {
		return before, false, err
	}
	watching, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	changes := b.Changes(watching, before.ID)
	for {
		r, err := b.Run(ctx, before.ID)
		if err != nil {
			return r, false, err
		}
		last := r.Last
		switch {
		case follow.IsRequest(last, request):
			return r, true, follow.Refusal(last, request)
		case r.Phase.Final():
			return r, true, nil
		case before.Phase != runtype.Paused && before.Stop == nil && r.Revision == before.Revision && b.Alone():
			return r, true, nil // there was nothing to do
		}
		select {
		case <-watching.Done():
			return r, false, ctx.Err()
		case <-changes:
		}
	}
}

// cancel ends a run and prints the steps it undid.
func (a verbs) cancel(ctx context.Context, id string, req workflow.RunRequest, wait time.Duration) error {
	b, err := a.Open(ctx, cli.Sends)
	if err != nil {
		return err
	}
	defer b.Close()
	before, err := b.Run(ctx, id)
	if err != nil {
		return err
	}
	if err := b.Request(ctx, before.ID, runtype.VerbCancel, req); err != nil {
		return err
	}
	r, err := follow.Follower{App: a.App}.Working(ctx, b, follow.Reading{ID: before.ID, After: before.Revision, Wait: wait}, follow.Nothing{})
	if err != nil {
		return err
	}
	if err := follow.Refusal(r.Last, req.RequestID); err != nil {
		return err
	}
	return a.printCancel(ctx, b, before, r)
}

// printCancel prints the steps of a cancel: undone CreateTemporary; closed EnableHA; finally Clean; cancelled.
func (a verbs) printCancel(ctx context.Context, b backend.Backend, before, r view.Run) error {
	ctx = context.WithoutCancel(ctx)
	events, err := b.History(ctx, r.ID, 0, 1000)
	if err != nil {
		return err
	}
	var finally []view.FlowStep
	if f, err := b.Flow(ctx, flowFor(r.Flow, r.Subject)); err == nil { // without the flow, finally steps read as closed
		finally = f.Finally
	}
	var parts []string
	begun := false
	for _, e := range events {
		begun = begun || e.Kind == runtype.RunCancelling
		if !begun {
			continue
		}
		switch e.Kind {
		case runtype.StepUndoneEvent:
			parts = append(parts, "undone "+e.Step)
		case runtype.StepDoneEvent:
			parts = append(parts, stepWord(finally, e.Step)+e.Step)
		}
	}
	if err := a.Emit(r, []string{r.ID}, func() string {
		switch r.Phase {
		case runtype.Cancelled:
			return strings.Join(append(parts, "cancelled"), "; ") + "\n"
		default:
			lines := view.Standing(r, time.Now(), a.Style(a.Out))
			if len(parts) > 0 {
				lines = append([]string{strings.Join(parts, "; ")}, lines...)
			}
			return strings.Join(lines, "\n") + "\n"
		}
	}); err != nil {
		return err
	}
	if r.Phase == runtype.Cancelled {
		return nil
	}
	return cli.End(view.ExitOfRun(r))
}

func stepWord(finally []view.FlowStep, name string) string {
	first, _, _ := strings.Cut(name, "/")
	first, _, _ = strings.Cut(first, "[")
	for _, s := range finally {
		if s.Name == first {
			return "finally "
		}
	}
	return "closed "
}

func (a verbs) signalCommand() *cobra.Command {
	var id, data, reason string
	var all selection
	var wait time.Duration
	cmd := &cobra.Command{
		Use: "signal RUN NAME", Short: "Send a signal to a run, or to many: durable at once, delivered once per id",
		Long:              "Sends a signal. It is durable when the command ends, and delivered once per id.\n" + manyText + "\nA bulk takes NAME alone; --id names the bulk.",
		Example:           "  pawl signal caught-up --flow Import --phase Waiting --yes\n  pawl signal b7qd caught-up --id ev-91 --data '{\"lag\":0}'\n  pawl signal b7qd approve --data '{\"choice\":\"approve\"}' --wait",
		Args:              all.args(2, 1, 1),
		ValidArgsFunction: a.CompleteRuns,
		RunE: a.Verb(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			s := runtype.Signal{ID: id, Name: args[len(args)-1], Actor: a.Actor(), At: time.Now().UTC()}
			if s.ID == "" {
				s.ID = newRequestID()
			}
			if data != "" {
				payload, err := cli.ToJSON("--data", []byte(data))
				if err != nil {
					return err
				}
				s.Payload = payload
			}
			if all.many {
				return a.bulk(ctx, all, requestOptions{reason: reason, requestID: id}, bulk.Spec{Verb: bulk.VerbSignal, Signal: s.Name, Data: s.Payload})
			}
			b, err := a.Open(ctx, cli.Sends)
			if err != nil {
				return err
			}
			defer b.Close()
			r, err := b.Run(ctx, args[0])
			if err != nil {
				return err
			}
			if err := b.Send(ctx, r.ID, s); err != nil {
				return err
			}
			if hint := unawaited(r, s.Name); hint != "" {
				a.Hint("%s", hint)
			}
			if cmd.Flags().Changed("wait") {
				a.Hint("accepted %s", s.ID)
				return follow.Follower{App: a.App}.Follow(ctx, b, follow.Reading{ID: r.ID, After: r.Revision, Wait: wait, Since: &r})
			}
			if b.Alone() {
				defer a.Hint("nobody works on the store now; go on with: pawl resume %s", view.Short(r.ID))
			}
			return a.Emit(map[string]string{"run": r.ID, "id": s.ID, "name": s.Name}, []string{s.ID}, func() string { return "accepted " + s.ID + "\n" })
		}),
	}
	f := cmd.Flags()
	f.StringVar(&id, "id", "", "the same `id` counts once (default: a new one)")
	f.StringVar(&data, "data", "", "`JSON` payload, at most 64 KiB")
	f.StringVar(&reason, "reason", "", "why, for the record of a bulk")
	cli.WaitFlag(cmd, &wait, 0, "follow the run, at most this long")
	all.flags(a, cmd)
	return cmd
}

// unawaited says that no step of a run waits for a signal now; "" if one does, or nobody knows.
func unawaited(r view.Run, signal string) string {
	var others []string
	for _, s := range r.Steps {
		switch {
		case s.Wait == nil || s.Phase != runtype.StepWaiting:
		case s.Wait.Signal == signal, s.Wait.Signal == "": // an approval reads signals without waiting for one by name
			return ""
		default:
			others = append(others, fmt.Sprintf("%s waits for %s", s.Name, s.Wait.Signal))
		}
	}
	said := fmt.Sprintf("no step of %s waits for signal %s now; the run keeps it until one does", view.Short(r.ID), signal)
	if len(others) > 0 {
		said += " (" + strings.Join(others, ", ") + ")"
	}
	return said
}

func (a verbs) progressCommand() *cobra.Command {
	var o requestOptions
	var text string
	cmd := &cobra.Command{
		Use: "progress RUN STEP DONE[/TOTAL]", Short: "Tell how far a step that works outside is",
		Example:           "  pawl progress gk3v CopyData 40/100 --text \"4 of 10 volumes\"",
		Args:              cobra.ExactArgs(3),
		ValidArgsFunction: a.CompleteRunSteps,
		RunE: a.Verb(func(ctx context.Context, _ *cobra.Command, args []string) error {
			done, total, err := parseProgress(args[2])
			if err != nil {
				return err
			}
			req := a.newRequest(o)
			req.Step = args[1]
			req.Progress = &runtype.Progress{Done: done, Total: total, Text: text, At: time.Now().UTC()}
			b, err := a.Open(ctx, cli.Sends)
			if err != nil {
				return err
			}
			defer b.Close()
			r, err := b.Run(ctx, args[0])
			if err != nil {
				return err
			}
			if err := b.Request(ctx, r.ID, runtype.VerbProgress, req); err != nil {
				return err
			}
			return a.Emit(progressView{r.ID, req.Step, done, total}, []string{r.ID}, func() string { return "accepted\n" })
		}),
	}
	o.flags(cmd)
	cmd.Flags().StringVar(&text, "text", "", "what is shown beside the numbers")
	return cmd
}

func parseProgress(text string) (done, total int64, err error) {
	first, second, ok := strings.Cut(text, "/")
	done, err = cli.ParseCount(first)
	if err == nil && ok {
		total, err = cli.ParseCount(second)
	}
	if err != nil || ok && done > total {
		return 0, 0, cli.Usage.Errorf("progress %q: it is DONE or DONE/TOTAL, such as 40/100", text)
	}
	return done, total, nil
}

// progressView is a progress that was accepted.
type progressView struct {
	Run   string `json:"run"`
	Step  string `json:"step"`
	Done  int64  `json:"done"`
	Total int64  `json:"total"`
}

// flowFor names the flow that serves a subject, for Backend.Flow.
func flowFor(flow, subject string) string {
	kind, _, _ := strings.Cut(subject, "/")
	return kind + "/" + flow
}

func newRequestID() string { return "cli-" + strings.ToLower(rand.Text()[:16]) }
