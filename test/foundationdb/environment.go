// Package foundationdb runs FoundationDB for tests of its operator: nodes whose pods are processes, with the programs of
// fdbsim as images, and `pawl operator` as a process.
//
//	pawl operator ──┬─▶ API server ◀── pods: fdb-kubernetes-monitor, sidecar, fdbserver ──┐
//	                └─▶ fdbcli, fdbbackup, fdbrestore ──▶ world (one a test) ◀────────────┘
//
// The world is served by the test itself, so that it can ask the databases what was done to them: which invariants were
// violated, how many recoveries the operator has caused, which keys are there.
package foundationdb

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/fdb/sim/world"
	"github.com/pawl-dev/pawl/test/controlplane"
	"github.com/pawl-dev/pawl/test/controlplane/kubelet"
)

// Options of an Environment. The zero value has three nodes and all versions of Versions.
type Options struct {
	Nodes   int                            // 0: 3
	Node    func(n int, node *corev1.Node) // changes a node before it is created: its zone
	Model   sim.Options                    // of each database; its Times and Rules are Quick where they are zero
	Kubelet func(*kubelet.Options)         // changes the options of the nodes
	Seed    uint64
	// Tools says that the images of the launcher have tools that act as Owner in the world: those that the chart copies
	// to the operator. Otherwise nothing that runs in a pod acts as the operator.
	Tools bool
}

// Versions are those that pods may run and tools exist for.
var Versions = []string{"7.1.67", "7.3.69", "7.3.79", "7.4.6"}

// Quick is a tenth of what things take by default. Time itself does not pass faster: the operator compares how long
// servers have been up with the age of their pods.
var Quick = sim.Times{
	Join: 100 * time.Millisecond, Restart: 100 * time.Millisecond, Detect: 100 * time.Millisecond, Recovery: 200 * time.Millisecond, Drain: 800 * time.Millisecond,
	Reaction: 6 * time.Second, Better: 100 * time.Millisecond, Status: 100 * time.Millisecond, Command: 10 * time.Millisecond,
	Snapshot: 3 * time.Second, Restore: 3 * time.Second,
}

// QuickRules are the rules for Quick, and for an operator with the flags QuickFlags.
var QuickRules = sim.Rules{Window: 5 * time.Second, Burst: 3 * time.Second}

// QuickFlags make the waits of `pawl operator` a tenth or less of what they are by default.
var QuickFlags = []string{
	"--fdb-minimum-recovery-time-for-exclusion", "6s", "--fdb-minimum-recovery-time-for-inclusion", "6s", "--fdb-minimum-recovery-time-for-configuration", "6s",
	"--fdb-coordinator-missing-wait", "6s", "--fdb-coordinator-undesired-wait", "6s", "--fdb-global-synchronization-wait", "1s", "--fdb-look", "2s", "--fdb-max-cli-timeout", "5s",
}

// tools are those that the operator runs.
var tools = []string{"fdbcli", "fdbbackup", "fdbrestore"}

// Owner is the instance as which the operator acts in the world.
const Owner = "pawl"

// Environment is nodes, images and a world.
type Environment struct {
	Plane   *controlplane.Plane
	Kubelet *kubelet.Kubelet
	World   *world.World
	// Tools is the folder for pawl operator --fdb-tools.
	Tools string
	// Env are more variables of the operator's process.
	Env []string

	dir      string
	listener net.Listener
	served   sync.WaitGroup
	nodes    []string
}

// Start starts the nodes, which end with Close.
func Start(ctx context.Context, plane *controlplane.Plane, name string, o Options) (*Environment, error) {
	if o.Nodes == 0 {
		o.Nodes = 3
	}
	if o.Model.Times == (sim.Times{}) {
		o.Model.Times = Quick
	}
	if o.Model.Rules == (sim.Rules{}) {
		o.Model.Rules = QuickRules
	}
	installed, err := install(ctx)
	if err != nil {
		return nil, err
	}
	e := &Environment{Plane: plane}
	if e.dir, err = os.MkdirTemp("", "fdb-"); err != nil { // short: it holds a socket
		return nil, err
	}
	e.World = world.New(world.Options{Seed: o.Seed, Model: o.Model})
	if err := e.start(name, installed, o); err != nil {
		return nil, errors.Join(err, e.Close(ctx))
	}
	return e, nil
}

func (e *Environment) start(name, installed string, o Options) (err error) {
	socket := filepath.Join(e.dir, "world")
	if e.listener, err = net.Listen("unix", socket); err != nil {
		return err
	}
	if err := errors.Join(os.Chmod(e.dir, 0o755), os.Chmod(socket, 0o777)); err != nil { // containers have users of their own
		return err
	}
	for name, file := range map[string]string{"FDB_TLS_CERTIFICATE_FILE": "tls.crt", "FDB_TLS_KEY_FILE": "tls.key", "FDB_TLS_CA_FILE": "ca.pem"} {
		e.Env = append(e.Env, name+"="+filepath.Join(e.dir, file))
		if err := os.WriteFile(filepath.Join(e.dir, file), []byte("simulated servers read no certificates\n"), 0o644); err != nil {
			return err
		}
	}
	e.served.Go(func() { _ = e.World.Serve(e.listener) }) // it ends with its listener
	if err := e.writeTools(installed, socket); err != nil {
		return err
	}
	options := kubelet.Options{Name: name, Mode: kubelet.Process, Nodes: o.Nodes, Node: o.Node, Images: images(installed, socket)}
	if o.Tools {
		if err := e.writeToolImages(installed, options.Images); err != nil {
			return err
		}
	}
	if o.Kubelet != nil {
		o.Kubelet(&options)
	}
	for n := range o.Nodes {
		e.nodes = append(e.nodes, fmt.Sprintf("%s-%d", name, n+1))
	}
	e.Kubelet, err = e.Plane.StartKubelet(options)
	return err
}

// Close ends the world and the nodes.
func (e *Environment) Close(ctx context.Context) error {
	var err error
	if e.Kubelet != nil {
		e.Kubelet.Stop()
	}
	for _, node := range e.nodes {
		err = errors.Join(err, ignoreMissing(e.Plane.Client().CoreV1().Nodes().Delete(ctx, node, deleteNow)))
	}
	if e.listener != nil {
		e.listener.Close()
	}
	e.World.Close()
	e.served.Wait()
	return errors.Join(err, os.RemoveAll(e.dir))
}

// Do runs something with the database of a connection string, alone.
func (e *Environment) Do(connection string, do func(*sim.Cluster)) error {
	c, err := fdb.ParseConnection(connection)
	if err != nil {
		return err
	}
	e.World.Do(c, do)
	return nil
}

var installation = sync.OnceValues(func() (string, error) {
	root, err := controlplane.Root()
	if err != nil {
		return "", err
	}
	program := filepath.Join(root, "bin", "fdbsim")
	build := exec.Command("go", "build", "-o", program, "./cmd/fdbsim")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building fdbsim: %w\n%s", err, out)
	}
	folder := filepath.Join(root, "bin", "fdb")
	for _, version := range Versions {
		out, err := exec.Command(program, "install", "--version", version, "--folder", filepath.Join(folder, version)).CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("installing FoundationDB %s: %w\n%s", version, err, out)
		}
	}
	return folder, nil
})

// install builds fdbsim and installs all versions below bin/fdb.
func install(ctx context.Context) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	return installation()
}

// images are those of FoundationDB: of each version the unified one, that of the servers, and that of the sidecar.
func images(installed, socket string) map[string]kubelet.Image {
	all := map[string]kubelet.Image{}
	for _, version := range Versions {
		folder := filepath.Join(installed, version)
		image := func(program string) kubelet.Image {
			i := kubelet.Image{Path: []string{folder}, Env: map[string]string{world.AddressVariable: socket}}
			if program != "" {
				i.Command = []string{filepath.Join(folder, program)}
			}
			return i
		}
		all["foundationdb/fdb-kubernetes-monitor:"+version] = image("fdb-kubernetes-monitor")
		all["foundationdb/foundationdb:"+version] = image("")
		all["foundationdb/foundationdb-kubernetes-sidecar:"+version+"-1"] = image("sidecar")
	}
	return all
}

// writeTools makes the folder of the operator's tools. Each is a script that says which world it is in, and as whom it
// acts: the operator gives its tools no variables that the real ones do not know.
func (e *Environment) writeTools(installed, socket string) error {
	e.Tools = filepath.Join(e.dir, "tools")
	for _, version := range Versions {
		v, err := fdb.ParseVersion(version)
		if err != nil {
			return err
		}
		folder := filepath.Join(e.Tools, v.Short())
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		for _, tool := range tools {
			script := fmt.Sprintf("#!/bin/sh\nexport %s=%s FDBSIM_OWNER=%s\nexec %s \"$@\"\n", world.AddressVariable, socket, Owner, filepath.Join(installed, version, tool))
			if err := os.WriteFile(filepath.Join(folder, tool), []byte(script), 0o755); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeToolImages gives the images of the launcher the tools that writeTools has made.
func (e *Environment) writeToolImages(installed string, images map[string]kubelet.Image) error {
	for _, version := range Versions {
		v, err := fdb.ParseVersion(version)
		if err != nil {
			return err
		}
		name, from, folder := "foundationdb/fdb-kubernetes-monitor:"+version, filepath.Join(installed, version), filepath.Join(e.dir, "images", version)
		if err := os.CopyFS(folder, os.DirFS(from)); err != nil { // its programs look for others beside themselves
			return err
		}
		for _, tool := range tools {
			script, err := os.ReadFile(filepath.Join(e.Tools, v.Short(), tool))
			if err == nil {
				err = errors.Join(os.Remove(filepath.Join(folder, tool)), os.WriteFile(filepath.Join(folder, tool), script, 0o755))
			}
			if err != nil {
				return err
			}
		}
		image := images[name]
		image.Path, image.Command = []string{folder}, []string{filepath.Join(folder, "fdb-kubernetes-monitor")}
		images[name] = image
	}
	return nil
}
