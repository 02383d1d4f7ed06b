package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/operator/foundationdb/sandbox"
)

// worldOptions are the flags of a simulated world.
type worldOptions struct {
	foundationdb bool
	speed        float64
	seed         uint64
	nodes        int
	kubeconfig   string
}

const worldAbout = `--fdb is a FoundationDB cluster to play with, without Kubernetes: the operator at work in
a simulated Kubernetes, on a simulated database, with the cluster of the example or those
of MANIFEST. It writes a kubeconfig, and prints what to export so that kubectl, pawl get,
describe, watch, apply, edit and delete, pawl fdb and pawl console use it. pawl dev fault
breaks something, and pawl dev skip lets time pass at once. The world has a clock of its
own, by which pawl tells ages. All of it is in memory: it ends, and is lost, with Ctrl-C.`

const worldExamples = `  pawl dev --fdb
  pawl dev --fdb --speed 10 examples/foundationdb/three-data-hall.yaml
  pawl dev fault kill-pod storage
  pawl dev skip 10m`

func (w *worldOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&w.foundationdb, "fdb", false, "a FoundationDB cluster to play with, in place of a server")
	f.Float64Var(&w.speed, "speed", 1, "with --fdb: `seconds` that pass there in one of ours, up to 1000")
	f.Uint64Var(&w.seed, "seed", 1, "with --fdb: `number` that everything random comes from")
	f.IntVar(&w.nodes, "nodes", 12, "with --fdb: `number` of nodes, in three zones")
	f.StringVar(&w.kubeconfig, "write-kubeconfig", "", "with --fdb: `file` for the way to it (default: fdb.kubeconfig in the state folder)")
	_ = cmd.MarkFlagFilename("write-kubeconfig")
}

// unused refuses what only --fdb understands.
func (w *worldOptions) unused(cmd *cobra.Command, args []string) error {
	for _, name := range []string{"speed", "seed", "nodes", "write-kubeconfig"} {
		if cmd.Flags().Changed(name) {
			return cli.Usage.Errorf("--%s is for --fdb", name)
		}
	}
	if len(args) > 1 {
		return cli.Usage.Errorf("pawl dev takes one DIR")
	}
	return nil
}

// The limits of a world.
const (
	mostSpeed = 1000
	mostNodes = 1000
)

// playFoundationDB serves a sandbox until ctx ends.
func (a verbs) playFoundationDB(ctx context.Context, o serverOptions, w worldOptions, manifests []string) (err error) {
	logger, err := serverLog(a.Err, o.logFormat, a.Flags.LogLevel)
	if err != nil {
		return err
	}
	switch {
	case w.speed < 0.1 || w.speed > mostSpeed:
		return cli.Usage.Errorf("--speed %g: it is a number from 0.1 to %d", w.speed, mostSpeed)
	case w.nodes < 1 || w.nodes > mostNodes:
		return cli.Usage.Errorf("--nodes %d: it is a number from 1 to %d", w.nodes, mostNodes)
	}
	klog.SetLogger(logr.Discard()) // a caller that goes is none of our business
	s := sandbox.New(sandbox.Options{Seed: w.seed, Nodes: w.nodes, Speed: w.speed, Log: logger})
	if err := a.fill(ctx, s, manifests); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return fault.ListenFailed.Errorf("%w", err)
	}
	file := w.kubeconfig
	if file == "" {
		file = filepath.Join(backend.StateDir(), "fdb.kubeconfig")
	}
	if err := writeKubeconfig(file, "http://"+listener.Addr().String()); err != nil {
		return errors.Join(err, listener.Close())
	}
	defer func() { err = errors.Join(err, os.Remove(file)) }()
	fmt.Fprintf(a.Out, "pawl dev --fdb listens on http://%s; all of it is in memory and ends with Ctrl-C\n  export KUBECONFIG=%s PAWL_KUBERNETES=true\n  pawl watch fdb orders\n", listener.Addr(), file)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	all.Go(func() { s.Run(ctx) })
	server := &http.Server{Handler: s.Handler(), BaseContext: func(net.Listener) context.Context { return ctx }, ReadHeaderTimeout: 10 * time.Second}
	stopped := context.AfterFunc(ctx, func() { _ = server.Close() }) // watches do not end by themselves
	defer stopped()
	err = server.Serve(listener)
	cancel()
	all.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// fill creates what manifests hold, or the example.
func (a verbs) fill(ctx context.Context, s *sandbox.Sandbox, manifests []string) error {
	texts := [][]byte{sandbox.Example}
	if len(manifests) > 0 {
		texts = nil
	}
	for _, file := range manifests {
		text, err := os.ReadFile(file) //nolint:gosec // the caller names it
		if err != nil {
			return cli.FileWrong.Errorf("%w", err)
		}
		texts = append(texts, text)
	}
	for _, text := range texts {
		made, left, err := s.Apply(ctx, text)
		if err != nil {
			return err
		}
		for _, ref := range made {
			fmt.Fprintf(a.Out, "%s created\n", ref)
		}
		for _, ref := range left {
			fmt.Fprintf(a.Out, "%s left out: the sandbox has no such kind\n", ref)
		}
	}
	return nil
}

// worldContext is the name of the context of a sandbox.
const worldContext = "pawl-dev-fdb"

// writeKubeconfig writes the way to a sandbox. A file that is the way to something else stays.
func writeKubeconfig(file, url string) error {
	if is, err := clientcmd.LoadFromFile(file); err == nil && is.Contexts[worldContext] == nil || err != nil && !errors.Is(err, os.ErrNotExist) {
		return cli.Usage.Errorf("--write-kubeconfig %s: the file is something else, and is not written over", file)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[worldContext] = &clientcmdapi.Cluster{Server: url}
	config.AuthInfos[worldContext] = &clientcmdapi.AuthInfo{}
	config.Contexts[worldContext] = &clientcmdapi.Context{Cluster: worldContext, AuthInfo: worldContext, Namespace: sandbox.Namespace}
	config.CurrentContext = worldContext
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return clientcmd.WriteToFile(*config, file)
}
