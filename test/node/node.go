package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/test/await"
	"github.com/pawl-dev/pawl/test/controlplane"
)

// Where the node is on this machine.
const (
	Dir      = "/var/lib/pawl-node"
	Name     = "pawl-node"
	Bridge   = "pawl0"
	Address  = "10.88.0.1" // of the bridge: the API server, etcd and the node
	Pods     = "10.88.0.0/16"
	Services = "10.96.0.0/16"
	DNS      = "10.96.0.10"
)

// Errors of a node that cannot start.
var (
	Unfit = fault.Declare(fault.Kind{
		Code: "NODE_MACHINE_UNFIT", Class: fault.Invalid,
		Title:  "this machine cannot be a node",
		Remedy: "Be root on Linux with cgroups, and install what the message names: apt-get install containerd runc containernetworking-plugins nftables iproute2 mmdebstrap. Programs of Kubernetes are built by `make node-programs`.",
	})
	Exists = fault.Declare(fault.Kind{
		Code: "NODE_EXISTS", Class: fault.Blocked,
		Title:  "a node is on this machine already",
		Remedy: "Use it, or remove it with `make real-cluster-down`.",
	})
	Failed = fault.Declare(fault.Kind{
		Code: "NODE_NOT_STARTED", Class: fault.Blocked,
		Title:  "a part of the node does not start or does not stop",
		Remedy: "Read the end of its log in the message; all logs are in /var/lib/pawl-node/log until `make real-cluster-down`.",
	})
)

// Node is the node of this machine.
type Node struct {
	// Bin is the folder of the programs, bin/ of the repository.
	Bin string
	// Log prints what is being done.
	Log func(format string, args ...any)

	plane controlplane.Binaries
}

// step is one thing that Start or Stop does.
type step struct {
	name string
	do   func(*Node, context.Context) error
}

var starting = []step{
	{"check the machine", (*Node).check},
	{"write the images", (*Node).writeImages},
	{"set the kernel", (*Node).setKernel},
	{"add the bridge", (*Node).addBridge},
	{"write the certificates", (*Node).writeCertificates},
	{"start etcd", (*Node).startEtcd},
	{"start the API server", (*Node).startAPIServer},
	{"start the controllers", (*Node).startControllers},
	{"start containerd", (*Node).startContainerd},
	{"import the images", (*Node).importImages},
	{"start kubelet", (*Node).startKubelet},
	{"start kube-proxy", (*Node).startProxy},
	{"start the provisioner of volumes", (*Node).startVolumes},
	{"start CoreDNS", (*Node).startDNS},
}

var stopping = []step{
	{"end the programs", (*Node).endPrograms},
	{"end the pods", (*Node).endPods},
	{"unmount", (*Node).unmount},
	{"remove the cgroups", (*Node).removeCgroups},
	{"remove the bridge", (*Node).removeBridge},
	{"remove the rules of Services", (*Node).removeRules},
	{"set the kernel back", (*Node).resetKernel},
	{"remove the files", (*Node).removeFiles},
}

// Start starts the node and returns once Pods, Services and names work. What a failed Start
// leaves behind is there to be read until Stop.
func (n *Node) Start(ctx context.Context) error {
	for _, s := range starting {
		began := time.Now()
		if err := s.do(n, ctx); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		n.Log("%s: %s", s.name, time.Since(began).Round(100*time.Millisecond))
	}
	return nil
}

// Stop removes the node, also one that another process has started or that has failed to
// start. It does all it can, and returns what could not be done.
func (n *Node) Stop(ctx context.Context) error {
	if _, err := os.Stat(Dir); errors.Is(err, os.ErrNotExist) {
		return nil // what runs on this machine is not ours
	}
	var errs []error
	for _, s := range stopping {
		if err := s.do(n, ctx); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.name, err))
		}
	}
	return errors.Join(errs...)
}

// Kubeconfig is the file with the rights of an administrator.
func Kubeconfig() string { return path("admin.conf") }

func path(elem ...string) string { return filepath.Join(append([]string{Dir}, elem...)...) }

// program is the path of a program that `make node-programs` builds.
func (n *Node) program(name string) string { return filepath.Join(n.Bin, "node", name) }

// until asks again until holds returns nil, at most for two minutes.
func until(ctx context.Context, what string, holds func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if err := await.Poll(ctx, 200*time.Millisecond, holds); err != nil {
		return Failed.Errorf("%s: %w", what, err)
	}
	return nil
}

func writeFile(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o600)
}
