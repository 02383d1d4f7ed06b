package objects

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/follow"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/foundationdb/report"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/manifest"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/view"
)

func (a verbs) applyCommand() *cobra.Command {
	var files []string
	var namespace string
	var wait time.Duration
	cmd := &cobra.Command{
		Use: "apply -f FILE", Short: "Create objects, or change what is asked of them",
		Long: `Stores objects: {kind, metadata: {name, namespace, labels}, spec}. A server that
has loaded a machine for their kind brings them to their spec. Several documents
may stand in a file. Flows and machines are not applied: a server loads them
with --flows and --machines.

Nothing is stored when a manifest cannot be right: every finding is told with its
line and column, by the schema that the machine of its kind declares, and a kind
that no machine serves is refused.

With --wait the command ends when every object is Ready for its spec and nothing
of it is under way or left to do, or at once with exit code 4 when one needs a
remedy.`,
		Example: "  pawl apply -f cluster.yaml\n  pawl apply -f clusters/ --wait 5m\n  pawl get etcd c1 -o yaml | sed 's/members: 3/members: 5/' | pawl apply -f -",
		Args:    cobra.NoArgs,
		RunE: a.Verb(func(ctx context.Context, cmd *cobra.Command, _ []string) error {
			if len(files) == 0 {
				return cli.Usage.Errorf("apply needs -f FILE, a folder, or - for standard input")
			}
			manifests, err := manifest.ReadManifests(files, a.In)
			if err != nil {
				return err
			}
			manifest.InNamespace(a.Target.Namespace, manifests, namespace)
			if a.StoreAbsent() { // manifests that are refused create none
				if err := a.admit(ctx, manifests); err != nil {
					return err
				}
			}
			b, err := a.Open(ctx, cli.Reads)
			if err != nil {
				return err
			}
			defer b.Close()
			if err := manifest.Admit(ctx, b, manifests); err != nil {
				return err
			}
			return a.apply(ctx, b, manifests, cmd.Flags().Changed("wait"), wait)
		}),
	}
	f := cmd.Flags()
	f.StringSliceVarP(&files, "filename", "f", nil, "`files`, folders, or - for standard input")
	f.StringVarP(&namespace, "namespace", "n", "", "`namespace` of all objects, whatever the files say")
	cli.WaitFlag(cmd, &wait, cli.Forever, "wait until the objects are Ready, at most this long")
	_ = cmd.MarkFlagFilename("filename", "yaml", "yml", "json")
	return cmd
}

// admit checks manifests without a store.
func (a verbs) admit(ctx context.Context, manifests []manifest.Manifest) error {
	b, err := a.Open(ctx, cli.Looks)
	if err != nil {
		return err
	}
	defer b.Close()
	return manifest.Admit(ctx, b, manifests)
}

func (a verbs) apply(ctx context.Context, b backend.Backend, manifests []manifest.Manifest, waits bool, wait time.Duration) error {
	objects, err := b.Objects()
	if err != nil {
		return err
	}
	page := control.Page{Items: []control.Object{}}
	for _, m := range manifests {
		word, o, err := applyOne(ctx, objects, m.Object)
		if err != nil {
			return fmt.Errorf("%s:%d: %w", m.File, m.Line, err)
		}
		a.Say("%s %s", o.Ref, word)
		a.warn(o)
		page.Items = append(page.Items, o)
	}
	if waits {
		for i, o := range page.Items {
			if page.Items[i], err = a.awaitReady(ctx, b, objects, o, wait); err != nil {
				return err
			}
		}
	}
	if a.IsText() {
		return nil
	}
	var names []string
	for _, o := range page.Items {
		names = append(names, o.Ref.String())
	}
	return a.Emit(page, names, nil)
}

// applyOne applies an object and returns the result as a word.
func applyOne(ctx context.Context, objects control.Objects, want control.Object) (word string, o control.Object, err error) {
	before, err := objects.Get(ctx, want.Ref)
	exists := err == nil
	if err != nil && fault.Of(err) != control.NotFound {
		return "", o, err
	}
	want.Revision, want.UID = 0, ""
	if o, err = objects.Apply(ctx, want); err != nil {
		return "", o, err
	}
	switch {
	case !exists:
		return "created", o, nil
	case o.Revision == before.Revision:
		return "unchanged", o, nil
	}
	return "changed", o, nil
}

// conditionSummary summarizes the driver's conditions of an object.
type conditionSummary struct {
	ready   bool
	blocked string // code and message of what needs a remedy
	text    string
}

func summaryOf(o control.Object) conditionSummary {
	var status struct {
		Conditions []struct {
			Type, Status, Reason, Message string
			ObservedGeneration            int64
		}
		Fault *struct{ Code, Title, Message, Remedy string }
	}
	_ = json.Unmarshal(o.Status, &status) // other statuses are ignored
	var s conditionSummary
	s.text = view.StateOf(o).State
	busy := false
	for _, c := range status.Conditions {
		switch {
		case c.Type == "Ready" && c.ObservedGeneration == o.Generation:
			s.ready = c.Status == "True"
		case c.Type == "Progressing": // a cluster serves while a change of it is under way, or is not begun yet
			busy = c.Status != "False" || c.ObservedGeneration < o.Generation
		}
	}
	s.ready = s.ready && !busy && !hasOpenRequest(o)
	if f := status.Fault; f != nil {
		s.blocked = strings.TrimSpace(f.Code + "  " + f.Message)
		if f.Remedy != "" {
			s.blocked += "\n  remedy: " + f.Remedy
		}
	}
	return s
}

// hasOpenRequest reports an object with a request by annotation that is pending or in work.
func hasOpenRequest(o control.Object) bool {
	var status struct {
		Requests []struct{ State string }
	}
	_ = json.Unmarshal(o.Status, &status)
	return slices.ContainsFunc(status.Requests, func(r struct{ State string }) bool {
		return r.State == sharedstorage.Pending || r.State == sharedstorage.InWork
	})
}

// awaitReady waits until an object is Ready for its newest spec, or needs a remedy.
func (a verbs) awaitReady(ctx context.Context, b backend.Backend, objects control.Objects, want control.Object, wait time.Duration) (control.Object, error) {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	if wait < cli.Forever {
		waiting, cancel = context.WithTimeout(ctx, wait)
		defer cancel()
	}
	changes := b.Changes(waiting, "")
	printed := ""
	for {
		o, err := objects.Get(ctx, want.Ref)
		if err != nil {
			return o, err
		}
		s := summaryOf(o)
		if line := strings.TrimSpace(s.text + "  " + s.blocked); line != printed && line != "" {
			a.Say("%s %s", o.Ref, line)
			printed = line
		}
		switch seen := o.Generation >= want.Generation; {
		case seen && follow.NeedsRemedy(ctx, b, o): // a serving cluster may be stuck with a change
			return o, cli.End(view.ExitRemedy)
		case seen && s.ready:
			return o, nil
		}
		select {
		case <-waiting.Done():
			if s.blocked != "" {
				return o, cli.End(view.ExitRemedy)
			}
			return o, cli.End(view.ExitActive)
		case <-changes:
		}
	}
}

func (a verbs) deleteCommand() *cobra.Command {
	var files []string
	var namespace string
	var wait time.Duration
	var revision int64
	var missing bool
	cmd := &cobra.Command{
		Use: "delete KIND NAME... | -f FILE", Short: "Delete objects",
		Long: `Marks objects for deletion. An object whose machine holds it passes through the
machine's table and is gone when that has come to its end; --wait waits for it.`,
		Example:           "  pawl delete etcd c1 c2 --wait 2m\n  pawl delete -f cluster.yaml",
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: a.CompleteKinds,
		RunE: a.Verb(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			refs, err := a.refsOf(args, files, namespace)
			if err != nil {
				return err
			}
			b, err := a.Open(ctx, cli.Looks)
			if err != nil {
				return err
			}
			defer b.Close()
			return a.delete(ctx, b, refs, deletion{revision: revision, missing: missing, waits: cmd.Flags().Changed("wait"), wait: wait})
		}),
	}
	f := cmd.Flags()
	f.StringSliceVarP(&files, "filename", "f", nil, "`files`, folders, or - for standard input")
	f.StringVarP(&namespace, "namespace", "n", "", "`namespace` of the object (default: default, on Kubernetes that of the context)")
	f.Int64Var(&revision, "revision", 0, "only this `revision`")
	f.BoolVar(&missing, "ignore-not-found", false, "what is not there counts as deleted")
	cli.WaitFlag(cmd, &wait, cli.Forever, "wait until the objects are gone, at most this long")
	return cmd
}

// refsOf names the objects of KIND NAME, KIND/NAMESPACE/NAME or -f.
func (a verbs) refsOf(args, files []string, namespace string) ([]control.Ref, error) {
	switch {
	case len(files) > 0 && len(args) > 0:
		return nil, cli.Usage.Errorf("give KIND NAME or -f FILE, not both")
	case len(files) > 0:
		manifests, err := manifest.ReadManifests(files, a.In)
		if err != nil {
			return nil, err
		}
		manifest.InNamespace(a.Target.Namespace, manifests, namespace)
		var refs []control.Ref
		for _, m := range manifests {
			refs = append(refs, m.Object.Ref)
		}
		return refs, nil
	case len(args) == 0:
		return nil, cli.Usage.Errorf("name the object: KIND NAME, or -f FILE")
	}
	if len(args) > 2 {
		var refs []control.Ref
		for _, name := range args[1:] {
			refs = append(refs, a.RefOf(args[0], namespace, name))
		}
		return refs, nil
	}
	ref, ok := a.ObjectOf(args, namespace)
	if !ok {
		return nil, cli.Usage.Errorf("%s is no object: it is KIND NAME", args[0])
	}
	return []control.Ref{ref}, nil
}

type deletion struct {
	revision       int64
	missing, waits bool
	wait           time.Duration
}

func (a verbs) delete(ctx context.Context, b backend.Backend, refs []control.Ref, how deletion) error {
	objects, err := b.Objects()
	if err != nil {
		return err
	}
	var left []control.Object
	page := control.Page{Items: []control.Object{}}
	for _, ref := range refs {
		o, err := objects.Delete(ctx, ref, how.revision)
		if how.missing && fault.Of(err) == control.NotFound {
			continue
		}
		if err != nil {
			return err
		}
		page.Items = append(page.Items, o)
		if o.Deleting() && len(o.Finalizers) > 0 {
			a.Say("%s marked for deletion", o.Ref)
			left = append(left, o)
			continue
		}
		a.Say("%s deleted", o.Ref)
	}
	if how.waits {
		for _, o := range left {
			if err := a.awaitGone(ctx, b, objects, o, how.wait); err != nil {
				return err
			}
		}
	}
	if a.IsText() {
		return nil
	}
	return a.Emit(page, nil, nil)
}

// awaitGone waits until an object is gone, or another one has its name.
func (a verbs) awaitGone(ctx context.Context, b backend.Backend, objects control.Objects, gone control.Object, wait time.Duration) error {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	if wait < cli.Forever {
		waiting, cancel = context.WithTimeout(ctx, wait)
		defer cancel()
	}
	changes := b.Changes(waiting, "")
	for {
		o, err := objects.Get(ctx, gone.Ref)
		if fault.Of(err) == control.NotFound || err == nil && o.UID != gone.UID {
			a.Say("%s is gone", gone.Ref)
			return nil
		}
		if err != nil {
			return err
		}
		s := summaryOf(o)
		if follow.NeedsRemedy(ctx, b, o) {
			a.Say("%s is still there: %s  %s", gone.Ref, s.text, s.blocked)
			return cli.End(view.ExitRemedy)
		}
		select {
		case <-waiting.Done():
			a.Say("%s is still there: %s  %s", gone.Ref, s.text, s.blocked)
			if s.blocked != "" {
				return cli.End(view.ExitRemedy)
			}
			return cli.End(view.ExitActive)
		case <-changes:
		}
	}
}

func (a verbs) editCommand() *cobra.Command {
	var namespace string
	cmd := &cobra.Command{
		Use: "edit KIND NAME", Short: "Change an object in $EDITOR",
		Long: `Opens the object's labels, annotations and spec in $VISUAL or $EDITOR and applies
what was changed. If someone else has changed it meanwhile, nothing is written.`,
		Example:           "  EDITOR=nano pawl edit etcd c1",
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: a.CompleteKinds,
		RunE: a.Verb(func(ctx context.Context, _ *cobra.Command, args []string) error {
			ref, ok := a.ObjectOf(args, namespace)
			if !ok {
				return cli.Usage.Errorf("%s is no object: it is KIND NAME", args[0])
			}
			b, err := a.Open(ctx, cli.Looks)
			if err != nil {
				return err
			}
			defer b.Close()
			return a.edit(ctx, b, ref)
		}),
	}
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "`namespace` of the object (default: default, on Kubernetes that of the context)")
	return cmd
}

func (a verbs) edit(ctx context.Context, b backend.Backend, ref control.Ref) error {
	objects, err := b.Objects()
	if err != nil {
		return err
	}
	o, err := objects.Get(ctx, ref)
	if err != nil {
		return err
	}
	ref = o.Ref
	before, err := editable(o)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp("", "pawl-"+ref.Name+"-*.yaml")
	if err != nil {
		return err
	}
	if _, err = file.Write(before); err == nil {
		err = file.Close()
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	after, err := a.inEditor(ctx, file.Name())
	if err != nil {
		return err
	}
	if bytes.Equal(before, after) {
		a.Say("%s unchanged", ref)
		return os.Remove(file.Name())
	}
	manifests, problems := manifest.ParseManifests(file.Name(), after)
	switch {
	case len(problems) > 0:
		return problems // the file stays, so that nothing is lost
	case len(manifests) != 1 || manifests[0].Object.Ref != ref:
		return cli.FileWrong.Errorf("%s: it must hold %s, and nothing else", file.Name(), ref)
	}
	if err := manifest.Admit(ctx, b, manifests); err != nil {
		return err // the file stays
	}
	want := manifests[0].Object
	want.Revision, want.UID = o.Revision, o.UID
	if o, err = objects.Apply(ctx, want); err != nil {
		return fmt.Errorf("%w (what you wrote is in %s)", err, file.Name())
	}
	if err := a.Emit(o, []string{o.Ref.String()}, func() string { return ref.String() + " changed\n" }); err != nil {
		return err
	}
	a.warn(o)
	return os.Remove(file.Name())
}

// warn tells what is allowed in an object and may not do what is expected.
func (a verbs) warn(o control.Object) {
	for _, warning := range report.Warnings(o) {
		a.Hint("warning: %s: %s", o.Ref, warning)
	}
}

// editable returns the fields of an object that people may change, as YAML.
func editable(o control.Object) ([]byte, error) {
	type metadata struct {
		Namespace   string            `json:"namespace"`
		Name        string            `json:"name"`
		Labels      map[string]string `json:"labels,omitempty"`
		Annotations map[string]string `json:"annotations,omitempty"`
	}
	data, err := json.Marshal(struct {
		Kind     string          `json:"kind"`
		Metadata metadata        `json:"metadata"`
		Spec     json.RawMessage `json:"spec,omitempty"`
	}{o.Kind, metadata{o.Namespace, o.Name, o.Labels, o.Annotations}, o.Spec})
	if err != nil {
		return nil, err
	}
	text, err := cli.ToYAML(data)
	return []byte(text), err
}

// inEditor opens a file in the editor and returns its content afterwards.
func (a verbs) inEditor(ctx context.Context, path string) ([]byte, error) {
	editor := os.Getenv("VISUAL")
	if editor == "" {
		editor = os.Getenv("EDITOR")
	}
	if editor == "" {
		editor = "vi"
	}
	// An editor may come with arguments, such as "code --wait".
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", editor+` "$1"`, "pawl-edit", path)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.In, a.Out, a.Err
	if err := cmd.Run(); err != nil {
		return nil, cli.FileWrong.Errorf("the editor %q: %w; set EDITOR to one that can be started", editor, err)
	}
	return os.ReadFile(path)
}
