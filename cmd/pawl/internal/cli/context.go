package cli

import (
	"cmp"
	"maps"
	"os"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/contextfile"
	"github.com/pawl-dev/pawl/server"
	"github.com/pawl-dev/pawl/view"
)

// localFlags name a store of this machine, or what is loaded into one.
var localFlags = []string{"dsn", "store", "flows", "machines"}

// asked is the server that a call has asked, and the context that named it.
type asked struct {
	url     string // empty: none was asked
	context contextfile.Context
	current bool // nothing but the file named the context
	other   bool // PAWL_SERVER or the file of --config names another server
	local   bool // the verb also works on a store
}

// useContext finds the server of a call that names neither server nor store: that of --server-context, of
// PAWL_SERVER_CONTEXT, or of the current context.
func (a *App) useContext(cmd *cobra.Command, line map[string]bool) error {
	a.asked = asked{}
	rank := rankOf(cmd, "server-context", line["server-context"])
	by := rankOf(cmd, "server", line["server"])
	if by > 0 && by >= rank {
		if rank == rankLine {
			return Usage.Errorf("--server and --server-context name two places: give one of them")
		}
		return nil
	}
	local, flag := strongest(cmd, localFlags, line)
	switch {
	case rank < rankLine && !asksServers(cmd):
		return nil
	case local > rank:
		return nil
	case local > 0 && local == rank:
		return Usage.Errorf("%s and %s name two places: give one of them", flagText("server-context", rank), flagText(flag, local))
	}
	f, err := contextfile.Read(contextfile.Path())
	if err != nil {
		return err
	}
	name := cmp.Or(a.Flags.ServerContext, f.Current)
	if name == "" {
		return nil
	}
	c, err := f.Find(name)
	if err != nil {
		return err
	}
	a.Flags.Server, a.asked = c.Server, asked{context: c, current: rank == 0, other: by > 0, local: topOf(cmd).GroupID != "clusters"}
	return nil
}

// asksServers reports a verb that works on what a server has. The others are for a store, for files or for this machine.
func asksServers(cmd *cobra.Command) bool {
	switch topOf(cmd).GroupID {
	case "", "servers", "contexts", "care":
		return false
	}
	return true
}

// CredentialsOf returns how a context's server is asked with what the context holds.
func CredentialsOf(c contextfile.Context) (client.Options, error) {
	token, err := c.Credential()
	if err != nil {
		return client.Options{}, err
	}
	o := client.Options{URL: c.Server, Token: token}
	if c.CertificateAuthority != "" {
		if o.CertificateAuthority, err = os.ReadFile(c.CertificateAuthority); err != nil {
			return client.Options{}, contextfile.Unusable.Errorf("certificate authority of context %s: %w", c.Name, err)
		}
	}
	return o, nil
}

// clientOptions name the server of --server, of the context, or the one that pawl server is by default. PAWL_TOKEN is
// for the server of PAWL_SERVER or --config, and where there is none for one that no context has a token for.
func (a *App) clientOptions() (client.Options, error) {
	a.asked.url = cmp.Or(a.Flags.Server, "http://"+server.DefaultListen)
	c := a.asked.context
	c.Server = a.asked.url
	o, err := CredentialsOf(c)
	if !a.asked.other {
		o.Token = cmp.Or(o.Token, os.Getenv("PAWL_TOKEN"))
	}
	return o, err
}

// askedText says which context was asked, and how another place is; empty: no context was.
func (a *App) askedText() string {
	if a.asked.url == "" || a.asked.context.Name == "" {
		return ""
	}
	text := "context: " + a.asked.context.Name + ", " + a.asked.url
	if a.asked.current {
		text += ", the current one"
	}
	text += "; another: pawl context use NAME, --server-context NAME"
	if a.asked.local {
		text += "; the local store: --store sqlite or --dsn FILE"
	}
	return text
}

// noteContext prints the context that a failed call has asked.
func (a *App) noteContext() {
	if text := a.askedText(); text != "" {
		a.Hint("  %s", text)
	}
}

// detailed notes the usage, and the context that was asked, in the JSON form of an error.
func (a *App) detailed(p *view.Problem) *view.Problem {
	known := a.asked.url != "" && a.asked.context.Name != ""
	if !known && a.UsageLine == "" {
		return p
	}
	out := *p
	if out.Details = maps.Clone(p.Details); out.Details == nil {
		out.Details = map[string]any{}
	}
	if known {
		out.Details["context"], out.Details["server"] = a.asked.context.Name, a.asked.url
	}
	if a.UsageLine != "" {
		out.Details["usage"] = a.UsageLine
	}
	return &out
}

// CompleteServerContexts suggests names of contexts.
func CompleteServerContexts(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	f, err := contextfile.Read(contextfile.Path())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, c := range f.Contexts {
		names = append(names, c.Name+"\t"+c.Server)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
