package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/serve"
	"github.com/pawl-dev/pawl/server"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

type serverOptions struct {
	listen, tokenFile, cert, key, otlp, logFormat, archive, clusters, sharedStorage string
	hosts                                                                           []string
	attempts                                                                        int
	drain                                                                           time.Duration
	retention                                                                       runtype.Retention
	otlpLogs                                                                        bool
	open                                                                            bool // a browser, by pawl dev
}

func (o *serverOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.listen, "listen", server.DefaultListen, "`host:port` to listen on; anything but loopback needs a token")
	f.StringVar(&o.tokenFile, "token-file", "", "`file` with a bearer token a line; only its owner may read it")
	f.StringVar(&o.cert, "tls-cert", "", "`file` with the certificate")
	f.StringVar(&o.key, "tls-key", "", "`file` with its key")
	f.StringSliceVar(&o.hosts, "host", nil, "further `names` under which the server is asked on loopback, as behind a proxy")
	f.StringVar(&o.otlp, "otlp-endpoint", "", "`URL` of an OpenTelemetry collector that gets spans (default: none)")
	f.BoolVar(&o.otlpLogs, "otlp-logs", false, "the collector also gets what steps print, as log records")
	f.StringVar(&o.logFormat, "log-format", "text", "text or json")
	f.StringVar(&o.clusters, "clusters", "", "`file` that configures container clusters (pawl dev: processes of this machine, unless it is \"off\")")
	f.StringVar(&o.sharedStorage, "shared-storage", "", "`folder` for clusters on shared storage, processes of this machine (pawl dev: beside the store, unless it is \"off\")")
	f.StringVar(&o.archive, "archive", "", "`file` that gets finished runs as JSON lines before they are removed")
	f.IntVar(&o.attempts, "attempts", 64, "attempts of steps at once")
	f.DurationVar(&o.drain, "drain", 25*time.Second, "what open attempts get when the server is stopped")
	r := runtype.Retention{}.Filled()
	f.DurationVar(&o.retention.Age, "retention-age", r.Age, "how long finished runs are kept at least, if they are among the newest")
	f.IntVar(&o.retention.Keep, "retention-keep", r.Keep, "finished runs of a subject that are kept however old they are")
	f.IntVar(&o.retention.Max, "retention-most", r.Max, "finished runs of a subject that are kept at most")
}

func (a verbs) serverCommand() *cobra.Command {
	var o serverOptions
	cmd := &cobra.Command{
		Use: "server", Short: "Serve runs, objects and machines over HTTP",
		Long: `One process with one listener and one store. It executes the runs of the store,
drives objects by the machines it has loaded, and answers /v1, /healthz, /readyz
and /metrics. Flows and machines are read again when their files change or on
SIGHUP; files with errors change nothing. SIGTERM drains.

While the PostgreSQL of --dsn is away or refuses for a while, the server waits:
/healthz answers 200, all else 503 with the cause, and the log says it.

Of the ready-made actions exec is off unless --actions names it.`,
		Example: "  pawl server --flows flows/ --machines machines/ --actions exec,http,sleep,signal,approval,status\n  pawl server --store postgres --dsn postgres://pawl@db/pawl --listen 0.0.0.0:7295 --token-file token --tls-cert tls.crt --tls-key tls.key",
		Args:    cobra.NoArgs,
		RunE: a.Verb(func(ctx context.Context, _ *cobra.Command, _ []string) error {
			return a.serve(ctx, "server", o)
		}),
	}
	o.flags(cmd)
	cmd.AddCommand(a.serverConfig())
	return cmd
}

func (a verbs) devCommand() *cobra.Command {
	var o serverOptions
	var w worldOptions
	cmd := &cobra.Command{
		Use: "dev [DIR] | --fdb [MANIFEST…]", Short: "A server for trying things: loopback, SQLite, exec and local HTTP allowed",
		Long: `A server as pawl server is one, on loopback and with SQLite, that offers all
ready-made actions and lets http actions reach loopback. DIR holds flows and
machines. While it runs it is the context dev, which is current if none was: see
pawl context.

` + worldAbout,
		Example: "  pawl dev flows/\n  pawl dev --flows flows/ --machines machines/ --dsn ./dev.db --listen 127.0.0.1:0\n" + worldExamples,
		RunE: a.Verb(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			if host, _, err := net.SplitHostPort(o.listen); err != nil || !isLoopback(host) {
				return cli.Usage.Errorf("--listen %s: pawl dev listens on loopback only; use pawl server", o.listen)
			}
			if w.foundationdb && o.open {
				return cli.Usage.Errorf("--open: pawl dev --fdb has no console of its own; use pawl console")
			}
			if w.foundationdb {
				return a.playFoundationDB(ctx, o, w, args)
			}
			if err := w.unused(cmd, args); err != nil {
				return err
			}
			a.Flags.Flows = append(args, a.Flags.Flows...)
			if len(a.Flags.Actions) == 0 {
				a.Flags.Actions = []string{"exec", "http", "sleep", "signal", "approval", "status"}
			}
			a.Flags.HTTPAllow = append(a.Flags.HTTPAllow, "127.0.0.0/8", "::1/128", "localhost")
			return a.serve(ctx, "dev", o)
		}),
	}
	o.flags(cmd)
	cmd.Flags().BoolVar(&o.open, "open", false, "open the console in a browser")
	w.flags(cmd)
	cmd.AddCommand(a.faultCommand(), a.skipCommand())
	return cmd
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (a verbs) serve(ctx context.Context, verb string, o serverOptions) (err error) {
	logger, err := serverLog(a.Err, o.logFormat, a.Flags.LogLevel)
	if err != nil {
		return err
	}
	if o.otlpLogs && o.otlp == "" {
		return cli.Usage.Errorf("--otlp-logs needs --otlp-endpoint, where the log records go")
	}
	clusters, err := a.clustersOf(verb, o.clusters)
	if err != nil {
		return err
	}
	store := a.StoreOptions()
	if clusters != nil && clusters.MasterKeyFile != "" {
		store.KeyFile = clusters.MasterKeyFile
	}
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	defer signal.Stop(reload)
	var own entry
	defer func() { err = errors.Join(err, own.leave()) }()
	return serve.Run(ctx, serve.Options{
		Store: store, Listen: o.listen, Hosts: o.hosts, TokenFile: o.tokenFile, CertFile: o.cert, KeyFile: o.key,
		Flows: a.Flags.Flows, Machines: a.Flags.Machines, Actions: a.Flags.Actions, HTTPAllow: a.Flags.HTTPAllow, Secrets: a.Secrets(),
		Clusters: clusters, SharedStorage: a.sharedStorageOf(verb, o.sharedStorage, logger), Attempts: o.attempts, Drain: o.drain, Retention: o.retention, Archive: o.archive, OTLP: o.otlp, OTLPLogs: o.otlpLogs, Version: a.VersionText(), Logger: logger, Reload: reload,
		Ready: func(addr net.Addr, flows, machines int) {
			scheme := "http"
			if o.cert != "" {
				scheme = "https"
			}
			url, context := scheme+"://"+addr.String(), ""
			if verb == "dev" {
				context = own.enter(url, o) // before others hear that it listens
			}
			fmt.Fprintf(a.Out, "pawl %s listens on %s with %s and %s\n", verb, url, cli.CountText(flows, "flow"), cli.CountText(machines, "machine"))
			if verb != "dev" {
				return
			}
			fmt.Fprintf(a.Out, "  console  %s/\n  API      %s/v1\n  context  %s\n", url, url, context)
			if o.open {
				if err := openBrowser(ctx, url+"/"); err != nil {
					a.Hint("pawl: no browser could be opened: %v", err)
				}
			}
		},
	})
}

// clustersOf is the configuration of container clusters.
func (a verbs) clustersOf(verb, file string) (*serve.Clusters, error) {
	switch {
	case file == "off", file == "" && verb != "dev", file == "" && a.Flags.Store == "memory":
		return nil, nil //nolint:nilnil // a server without clusters
	case file == "":
		return serve.LocalClusters(filepath.Dir(a.StoreOptions().Path())), nil
	}
	return serve.ReadClusters(file)
}

// sharedStorageOf says where clusters on shared storage are.
func (a verbs) sharedStorageOf(verb, folder string, logger *slog.Logger) *serve.SharedStorage {
	switch {
	case folder == "off", folder == "" && verb != "dev", folder == "" && (a.Flags.Store == "memory" || a.StoreOptions().Shared()):
		return nil
	case folder == "":
		return serve.LocalSharedStorage(a.StoreOptions().Path(), logger)
	}
	return &serve.SharedStorage{Dir: folder}
}

func serverLog(w io.Writer, format, level string) (*slog.Logger, error) {
	o := &slog.HandlerOptions{}
	if level != "" {
		var l slog.Level
		if err := l.UnmarshalText([]byte(level)); err != nil {
			return nil, cli.Usage.Errorf("--log-level %s: it is debug, info, warn or error", level)
		}
		o.Level = l
	}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, o)), nil
	}
	return nil, cli.Usage.Errorf("--log-format %s: it is text or json", format)
}
