// Package contexts has the verbs of pawl that name servers: log in and out, and choose which one is asked.
//
//	pawl login https://pawl.example.com --name prod ─▶ contexts.yaml ─▶ pawl get
package contexts

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/contextfile"
	"github.com/pawl-dev/pawl/view"
)

// Commands returns the verbs.
func Commands(a *cli.App) []*cobra.Command {
	v := verbs{a}
	return []*cobra.Command{v.loginCommand(), v.logoutCommand(), v.contextCommand()}
}

type verbs struct{ *cli.App }

func (a verbs) contextCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "context", Short: "List the servers that you know, and choose the one that is asked",
		Long: `A context is a named server and the way to it: pawl login adds one, and pawl dev
has its own, dev, while it runs. They are in $PAWL_CONTEXTS, by default
$XDG_CONFIG_HOME/pawl/contexts.yaml, which only you may read.

A verb asks the server of --server or PAWL_SERVER; else that of --server-context,
of PAWL_SERVER_CONTEXT, or of the current context. With --dsn, --store, --flows
or --machines it works on a local store, whatever context is current.

--context is for Kubernetes: it names a context of a kubeconfig.`,
		Example: "  pawl context list\n  pawl context use prod\n  pawl get --server-context staging",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.listCommand(), a.currentCommand(), a.useCommand(), a.renameCommand(), a.deleteCommand())
	return cmd
}

// contextView is a context without its secrets.
type contextView struct {
	Name                 string `json:"name"`
	Server               string `json:"server"`
	Current              bool   `json:"current"`
	HasToken             bool   `json:"hasToken"`
	TokenFile            string `json:"tokenFile,omitempty"`
	CertificateAuthority string `json:"certificateAuthority,omitempty"`
	Temporary            bool   `json:"temporary,omitempty"` // of a pawl dev

	token string // what there is of it, for people
}

func viewOf(f *contextfile.File, c contextfile.Context) contextView {
	return contextView{Name: c.Name, Server: c.Server, Current: c.Name == f.Current, HasToken: c.Token != "" || c.TokenFile != "",
		TokenFile: c.TokenFile, CertificateAuthority: c.CertificateAuthority, Temporary: c.Process != ""}
}

func (a verbs) listCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List contexts; * is the current one", Args: cobra.NoArgs, Example: "  pawl context list\n  pawl context list -o name",
		RunE: a.Verb(func(context.Context, *cobra.Command, []string) error {
			f, err := contextfile.Read(contextfile.Path())
			if err != nil {
				return err
			}
			all := make([]contextView, len(f.Contexts))
			for i, c := range f.Contexts {
				all[i] = viewOf(f, c)
				all[i].token = tokenText(c)
			}
			return cli.EmitList(a.App, all, func(c contextView) string { return c.Name }, "no contexts; pawl login SERVER adds one", []view.Column[contextView]{
				{Head: "CURRENT", Cell: func(c contextView) string { return map[bool]string{true: "*"}[c.Current] }},
				{Head: "NAME", Cell: func(c contextView) string { return c.Name }},
				{Head: "SERVER", Cell: func(c contextView) string { return c.Server }},
				{Head: "TOKEN", Cell: func(c contextView) string { return c.token }},
				{Head: "CERTIFICATE AUTHORITY", Wide: true, Cell: func(c contextView) string { return c.CertificateAuthority }},
				{Head: "TEMPORARY", Wide: true, Cell: func(c contextView) string { return map[bool]string{true: "yes", false: "no"}[c.Temporary] }},
			})
		}),
	}
}

func tokenText(c contextfile.Context) string {
	switch {
	case c.Token != "":
		return "kept"
	case c.TokenFile != "":
		return "file " + c.TokenFile
	}
	return "none"
}

func (a verbs) currentCommand() *cobra.Command {
	return &cobra.Command{
		Use: "current", Short: "Print the name of the current context", Args: cobra.NoArgs, Example: "  pawl context current\n  pawl context current -o json",
		RunE: a.Verb(func(context.Context, *cobra.Command, []string) error {
			f, err := contextfile.Read(contextfile.Path())
			if err != nil {
				return err
			}
			c, err := current(f, nil)
			if err != nil {
				return err
			}
			return a.Emit(viewOf(f, c), []string{c.Name}, func() string { return c.Name + "\n" })
		}),
	}
}

// current is the context that an argument names, else the current one.
func current(f *contextfile.File, args []string) (contextfile.Context, error) {
	switch {
	case len(args) > 0:
		return f.Find(args[0])
	case f.Current == "":
		return contextfile.Context{}, contextfile.NotFound.Errorf("no context is current")
	}
	return f.Find(f.Current)
}

// change is a verb that changes the file, and prints one of its contexts.
func (a verbs) change(do func(f *contextfile.File, args []string) (contextfile.Context, error), text func(c contextfile.Context) string) func(*cobra.Command, []string) error {
	return a.Verb(func(_ context.Context, _ *cobra.Command, args []string) error {
		var c contextfile.Context
		var v contextView
		err := contextfile.Update(contextfile.Path(), func(f *contextfile.File) (err error) {
			if c, err = do(f, args); err == nil {
				v = viewOf(f, c)
			}
			return err
		})
		if err != nil {
			return err
		}
		return a.Emit(v, []string{c.Name}, func() string { return text(c) + "\n" })
	})
}

func (a verbs) useCommand() *cobra.Command {
	return &cobra.Command{
		Use: "use NAME", Short: "Make a context the current one", Args: cobra.ExactArgs(1), Example: "  pawl context use prod", ValidArgsFunction: first,
		RunE: a.change(func(f *contextfile.File, args []string) (contextfile.Context, error) {
			if err := f.Use(args[0]); err != nil {
				return contextfile.Context{}, err
			}
			return f.Find(args[0])
		}, func(c contextfile.Context) string {
			a.hintOverridden()
			return "context " + c.Name + " is current: " + c.Server
		}),
	}
}

// hintOverridden says that the environment names another server than the current context.
func (a verbs) hintOverridden() {
	for _, name := range []string{"PAWL_SERVER", "PAWL_SERVER_CONTEXT"} {
		if value := os.Getenv(name); value != "" {
			a.Hint("%s=%s is asked before the current context", name, value)
			return
		}
	}
}

func (a verbs) renameCommand() *cobra.Command {
	return &cobra.Command{
		Use: "rename NAME NEW", Short: "Give a context another name", Args: cobra.ExactArgs(2), Example: "  pawl context rename 127.0.0.1:7295 laptop", ValidArgsFunction: first,
		RunE: a.change(func(f *contextfile.File, args []string) (contextfile.Context, error) {
			if err := f.Rename(args[0], args[1]); err != nil {
				return contextfile.Context{}, err
			}
			return f.Find(args[1])
		}, func(c contextfile.Context) string { return "context " + c.Name + " renamed" }),
	}
}

func (a verbs) deleteCommand() *cobra.Command {
	return &cobra.Command{
		Use: "delete NAME...", Short: "Forget contexts with their tokens", Args: cobra.MinimumNArgs(1), Example: "  pawl context delete staging", ValidArgsFunction: cli.CompleteServerContexts,
		RunE: a.Verb(func(_ context.Context, _ *cobra.Command, args []string) error {
			none := false
			err := contextfile.Update(contextfile.Path(), func(f *contextfile.File) error {
				had := f.Current
				for _, name := range args {
					if err := f.Delete(name); err != nil {
						return err
					}
				}
				none = had != "" && f.Current == ""
				return nil
			})
			if err != nil {
				return err
			}
			if none {
				defer a.Hint("no context is current now")
			}
			return a.Emit(cli.ListOf(args), args, func() string {
				text := ""
				for _, name := range args {
					text += "context " + name + " deleted\n"
				}
				return text
			})
		}),
	}
}

// first completes the first argument.
func first(cmd *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return cli.CompleteServerContexts(cmd, args, start)
}
