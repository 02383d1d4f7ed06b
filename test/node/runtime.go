package node

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"strings"
)

// network is the name of the network of pods.
const network = "pawl"

var (
	//go:embed manifests/containerd.toml
	containerdConfig string
	//go:embed manifests/network.json
	networkConfig string
	//go:embed manifests/kubelet.yaml
	kubeletConfig string
	//go:embed manifests/kube-proxy.yaml
	proxyConfig string
)

// socket is where containerd listens.
func socket() string { return path("containerd.sock") }

func (n *Node) startContainerd(ctx context.Context) error {
	if err := writeFile(path("containerd.toml"), fill(containerdConfig)); err != nil {
		return err
	}
	if err := writeFile(path("cni/10-"+network+".conflist"), fill(networkConfig)); err != nil {
		return err
	}
	if err := n.start("containerd", "containerd", "--config", path("containerd.toml")); err != nil {
		return err
	}
	return until(ctx, "containerd answers", func(ctx context.Context) error {
		if _, err := run(ctx, "", "ctr", "--address", socket(), "version"); err != nil {
			return fmt.Errorf("%w\n%s", err, logEnd("containerd"))
		}
		return nil
	})
}

func (n *Node) startKubelet(ctx context.Context) error {
	if err := writeFile(path("kubelet.yaml"), fill(kubeletConfig)); err != nil {
		return err
	}
	if err := os.WriteFile(path("resolv.conf"), nil, 0o644); err != nil { // pods of the node's network ask nobody
		return err
	}
	if err := n.start("kubelet", n.program("kubelet"), "--config="+path("kubelet.yaml"), "--kubeconfig="+path("kubelet.conf"), "--root-dir="+path("kubelet"), "--cert-dir="+path("kubelet/pki"),
		"--node-ip="+Address, "--hostname-override="+Name); err != nil {
		return err
	}
	return until(ctx, "the node is Ready", func(ctx context.Context) error {
		out, err := n.kubectl(ctx, "get", "node", Name, "-o", `jsonpath={.status.conditions[?(@.type=="Ready")]}`)
		if err == nil && !strings.Contains(out, `"status":"True"`) {
			err = fmt.Errorf("%s", out)
		}
		if err != nil {
			return fmt.Errorf("%w\n%s", err, logEnd("kubelet"))
		}
		return nil
	})
}

func (n *Node) startProxy(context.Context) error {
	if err := writeFile(path("kube-proxy.yaml"), fill(proxyConfig)); err != nil {
		return err
	}
	return n.start("kube-proxy", n.program("kube-proxy"), "--config="+path("kube-proxy.yaml"))
}
