package contexts

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/contextfile"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/server/route"
)

type loginOptions struct {
	name, tokenFile, authority string
	stdin                      bool
}

func (a verbs) loginCommand() *cobra.Command {
	var o loginOptions
	cmd := &cobra.Command{
		Use: "login SERVER", Short: "Add a server to the contexts, and make it the current one",
		Long: `Asks the server who you are, keeps its address and the token as a context, and
makes that the current one. A server that refuses the token changes nothing.

The token comes from --token-stdin, from --token-file, which is read anew by each
call, or from the terminal. A server that is open on loopback needs none.`,
		Example: "  pawl login https://pawl.example.com:7295 --name prod\n  pawl token create --store sqlite -o json | jq -r .token | pawl login 127.0.0.1:7295 --token-stdin\n  pawl login https://pawl.internal --token-file ~/.pawl-token --certificate-authority ca.crt",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: a.Verb(func(ctx context.Context, _ *cobra.Command, args []string) error { return a.login(ctx, args[0], o) }),
	}
	f := cmd.Flags()
	f.StringVar(&o.name, "name", "", "`name` of the context (default: host and port of the server)")
	f.StringVar(&o.tokenFile, "token-file", "", "`file` with the token")
	f.BoolVar(&o.stdin, "token-stdin", false, "read the token from standard input")
	f.StringVar(&o.authority, "certificate-authority", "", "PEM `file` with the certificates that the server's is signed by (default: those of the system)")
	cmd.MarkFlagsMutuallyExclusive("token-file", "token-stdin")
	cli.SetCompletions(cmd, map[string]cli.Completion{"name": cli.CompleteServerContexts})
	return cmd
}

// loggedIn is the answer of pawl login.
type loggedIn struct {
	Context string `json:"context"`
	Server  string `json:"server"`
	client.Me
}

func (a verbs) login(ctx context.Context, server string, o loginOptions) error {
	c := contextfile.Context{Name: o.name, Server: server}
	for to, path := range map[*string]string{&c.TokenFile: o.tokenFile, &c.CertificateAuthority: o.authority} {
		if path == "" {
			continue
		}
		whole, err := filepath.Abs(path)
		if err != nil {
			return cli.FileWrong.Errorf("%s: %w", path, err)
		}
		*to = whole
	}
	if o.stdin {
		data, err := io.ReadAll(io.LimitReader(a.In, 1<<16))
		if c.Token = strings.TrimSpace(string(data)); err != nil || c.Token == "" {
			return cli.Usage.Errorf("--token-stdin: there is no token on standard input")
		}
		c.TokenFile = ""
	}
	me, err := a.ask(ctx, &c)
	if fault.Of(err) == route.Unauthenticated && c.Token == "" && c.TokenFile == "" {
		if c.Token, err = a.prompt(c.Server); err != nil {
			return err
		}
		me, err = a.ask(ctx, &c)
	}
	if err != nil {
		return err
	}
	err = contextfile.Update(contextfile.Path(), func(f *contextfile.File) error {
		if err := f.Put(c); err != nil {
			return err
		}
		return f.Use(c.Name)
	})
	if err != nil {
		return err
	}
	a.hintOverridden()
	return a.Emit(loggedIn{c.Name, c.Server, me}, []string{c.Name}, func() string {
		return fmt.Sprintf("logged in to %s as %s (%s)\ncontext %s is current\n", c.Server, me.Name, me.Role, c.Name)
	})
}

// ask asks the server who the caller is, and fills in the address and the name of the context.
func (a verbs) ask(ctx context.Context, c *contextfile.Context) (client.Me, error) {
	o, err := cli.CredentialsOf(*c)
	if err != nil {
		return client.Me{}, err
	}
	api, err := client.New(o)
	if err != nil {
		return client.Me{}, err
	}
	defer api.Close()
	c.Server = api.URL()
	if u, err := url.Parse(c.Server); err == nil {
		c.Name = cmp.Or(c.Name, u.Host)
		if o.Token != "" && u.Scheme == "http" && !isLoopback(u.Hostname()) {
			a.Hint("warning: %s is asked without TLS, and the token passes in clear text", c.Server)
		}
	}
	return api.Me(ctx)
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// prompt asks for the token at the terminal.
func (a verbs) prompt(server string) (string, error) {
	tty, ok := a.In.(*os.File)
	if !ok || !term.IsTerminal(int(tty.Fd())) { //nolint:gosec // a file descriptor
		return "", cli.Usage.Errorf("%s asks for a token, and there is no terminal to ask at: give --token-file or --token-stdin", server)
	}
	fmt.Fprintf(a.Err, "Token for %s: ", server)
	secret, err := term.ReadPassword(int(tty.Fd())) //nolint:gosec // a file descriptor
	fmt.Fprintln(a.Err)
	token := strings.TrimSpace(string(secret))
	if err != nil || token == "" {
		return "", cli.Usage.Errorf("no token was given")
	}
	return token, nil
}

func (a verbs) logoutCommand() *cobra.Command {
	return &cobra.Command{
		Use: "logout [CONTEXT]", Short: "Forget the token of a context, by default of the current one",
		Long: `Removes the token from the context; a token file stays. The token itself works
until pawl token revoke ID ends it.`,
		Example: "  pawl logout\n  pawl logout prod", Args: cobra.MaximumNArgs(1), ValidArgsFunction: first,
		RunE: a.change(func(f *contextfile.File, args []string) (contextfile.Context, error) {
			c, err := current(f, args)
			if err != nil {
				return c, err
			}
			c.Token, c.TokenFile = "", ""
			return c, f.Put(c)
		}, func(c contextfile.Context) string {
			return "logged out of " + c.Server + ": context " + c.Name + " has no token"
		}),
	}
}
