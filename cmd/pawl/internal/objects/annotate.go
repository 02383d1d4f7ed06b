package objects

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/control"
)

func (a verbs) annotateCommand() *cobra.Command {
	var namespace string
	var overwrite bool
	cmd := &cobra.Command{
		Use: "annotate KIND NAME KEY=VALUE…", Short: "Set annotations of an object, or remove them with KEY-",
		Long: `Sets annotations of an object; KEY- removes one. Annotations that begin with
pawl.dev/ are requests to the machine of the object. One that is there with
another value stays, unless --overwrite is given.`,
		Example:           "  pawl annotate SharedStorageCluster orders pawl.dev/switch-writer=2\n  pawl annotate etcd c1 team=blue note-",
		Args:              cobra.MinimumNArgs(2),
		ValidArgsFunction: a.CompleteKinds,
		RunE: a.Verb(func(ctx context.Context, _ *cobra.Command, args []string) error {
			words := 2
			if strings.Count(args[0], "/") == 2 {
				words = 1
			}
			if len(args) <= words {
				return cli.Usage.Errorf("give KIND NAME and at least one KEY=VALUE")
			}
			ref, _ := a.ObjectOf(args[:words], namespace)
			b, err := a.Open(ctx, cli.Looks)
			if err != nil {
				return err
			}
			defer b.Close()
			objects, err := b.Objects()
			if err != nil {
				return err
			}
			o, err := control.Modify(ctx, objects, ref, func(o *control.Object) error { return annotate(o, args[words:], overwrite) })
			if err != nil {
				return err
			}
			return a.Emit(o, []string{o.Ref.String()}, func() string { return o.Ref.String() + " annotated\n" })
		}),
	}
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "`namespace` of the object (default: default, on Kubernetes that of the context)")
	cmd.Flags().BoolVar(&overwrite, "overwrite", false, "replace what is there with another value")
	return cmd
}

// annotate makes the changes KEY=VALUE and KEY-.
func annotate(o *control.Object, changes []string, overwrite bool) error {
	if o.Annotations == nil {
		o.Annotations = map[string]string{}
	}
	for _, change := range changes {
		key, value, sets := strings.Cut(change, "=")
		switch is, there := o.Annotations[key]; {
		case sets && there && is != value && !overwrite:
			return cli.Usage.Errorf("annotation %s is %q already; --overwrite replaces it", key, is)
		case sets:
			o.Annotations[key] = value
		case strings.HasSuffix(change, "-"):
			delete(o.Annotations, strings.TrimSuffix(change, "-"))
		default:
			return cli.Usage.Errorf("%q is neither KEY=VALUE nor KEY-", change)
		}
	}
	return nil
}
