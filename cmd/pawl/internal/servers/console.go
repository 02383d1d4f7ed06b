package servers

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os/exec"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/foundationdb"
	"github.com/pawl-dev/pawl/console"
	"github.com/pawl-dev/pawl/server"
	"github.com/pawl-dev/pawl/server/auth"
)

// consoleListen is the default address of `pawl console`, beside those of server and operator.
const consoleListen = "127.0.0.1:7298"

type consoleOptions struct {
	listen, tokenFile, namespace string
	all, open                    bool
}

func (a verbs) consoleCommand() *cobra.Command {
	var o consoleOptions
	cmd := &cobra.Command{
		Use: "console", Short: "The web console for a Kubernetes cluster, on this machine, with your rights",
		Long: `Serves the web console and /v1 for the cluster of the current context: Rollouts with
their batches and pods, what they wait for, and buttons that approve, pause, resume,
retry and undo; FoundationDB clusters with their groups and plans; runs and objects
beside them.

Each request goes to the API server with the credentials of your kubeconfig: the
console shows and does what you may, and nothing is stored. It listens on loopback
only, and refuses pages of other sites. Other people on this machine reach loopback
too: where that matters, let --token-file ask for a token.`,
		Example: "  pawl console --open\n  pawl console --context prod -n databases\n  kubectl pawl console -A --listen 127.0.0.1:0",
		Args:    cobra.NoArgs,
		RunE: a.Verb(func(ctx context.Context, _ *cobra.Command, _ []string) error {
			return a.console(ctx, o)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&o.listen, "listen", consoleListen, "`host:port` of loopback to listen on")
	f.StringVar(&o.tokenFile, "token-file", "", "`file` with a token a line, which the console then asks for; only its owner may read it")
	f.BoolVar(&o.open, "open", false, "open it in the browser")
	f.StringVarP(&o.namespace, "namespace", "n", "", "`namespace` to show (default: that of the context)")
	f.BoolVarP(&o.all, "all-namespaces", "A", false, "show all namespaces")
	a.CompleteNamespaces(cmd)
	return cmd
}

func (a verbs) console(ctx context.Context, o consoleOptions) error {
	if !a.Target.Kubernetes {
		return cli.Usage.Errorf("pawl console is for a Kubernetes cluster: leave --server and --dsn out, or name the cluster with --context; a pawl server brings its console along")
	}
	if host, _, err := net.SplitHostPort(o.listen); err != nil || !isLoopback(host) {
		return cli.Usage.Errorf("--listen %s: pawl console listens on loopback only, such as %s", o.listen, consoleListen)
	}
	b, err := a.Open(ctx, cli.Reads)
	if err != nil {
		return err
	}
	defer b.Close()
	cluster, ok := b.(*backend.Kube)
	if !ok {
		return cli.Usage.Errorf("pawl console is for a Kubernetes cluster")
	}
	options, err := cluster.ConsoleOptions(ctx, a.Actor())
	if err != nil {
		return err
	}
	if options.FoundationDB, err = foundationdb.ConsoleSource(a.App, cluster, a.ListNamespace(o.namespace)); err != nil {
		return err
	}
	options.Listen, options.Version, options.Console = o.listen, a.VersionText(), console.Handler()
	if o.tokenFile != "" {
		if options.Tokens, err = auth.ReadTokens(o.tokenFile); err != nil {
			return err
		}
	}
	s, err := server.New(options)
	if err != nil {
		return err
	}
	ln, err := s.Listen()
	if err != nil {
		return err
	}
	url := "http://" + ln.Addr().String()
	where := "all namespaces"
	if namespace := a.ListNamespace(o.namespace); namespace != "" {
		where = "namespace " + namespace
	}
	a.Say("pawl console listens on %s for %s of %s", url, where, cmp.Or(a.ContextName(), "the cluster"))
	a.Hint("It acts with your rights, for everybody who reaches this address. Ctrl-C ends it.")
	if o.open {
		if err := openBrowser(ctx, url); err != nil {
			a.Hint("pawl: no browser could be opened: %v", err)
		}
	}
	return s.Serve(ctx, ln)
}

// openBrowser shows an address in the browser of the desktop.
func openBrowser(ctx context.Context, url string) error {
	program := []string{"xdg-open"}
	switch runtime.GOOS {
	case "darwin":
		program = []string{"open"}
	case "windows":
		program = []string{"rundll32", "url.dll,FileProtocolHandler"}
	}
	cmd := exec.CommandContext(ctx, program[0], append(program[1:], url)...) //nolint:gosec // our own address
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%s: %w", program[0], err)
	}
	go func() { _ = cmd.Wait() }()
	return nil
}
