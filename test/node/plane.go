package node

import (
	"context"
	"crypto/tls"
	_ "embed"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"
)

var (
	//go:embed manifests/kubeadm.yaml
	kubeadmConfig string
	//go:embed manifests/cluster.yaml
	clusterManifest string
	//go:embed manifests/coredns.yaml
	dnsManifest string
)

// fill puts the names and addresses of the node into a file of the folder manifests.
var fill = strings.NewReplacer("{{dir}}", Dir, "{{name}}", Name, "{{address}}", Address, "{{pods}}", Pods, "{{services}}", Services, "{{dns}}", DNS,
	"{{bridge}}", Bridge, "{{plugins}}", plugins, "{{pause}}", PauseImage, "{{coredns}}", DNSImage, "{{socket}}", socket(), "{{network}}", network).Replace

func (n *Node) writeCertificates(ctx context.Context) error {
	config := path("kubeadm.yaml")
	if err := writeFile(config, fill(kubeadmConfig)); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"init", "phase", "certs", "all", "--config", config},
		{"init", "phase", "kubeconfig", "all", "--kubeconfig-dir", Dir, "--config", config},
	} {
		if _, err := run(ctx, "", n.program("kubeadm"), args...); err != nil {
			return err
		}
	}
	proxy, err := run(ctx, "", n.program("kubeadm"), "kubeconfig", "user", "--client-name", "system:kube-proxy", "--config", config)
	if err != nil {
		return err
	}
	if at := strings.Index(proxy, "apiVersion:"); at > 0 {
		proxy = proxy[at:] // warnings come first
	}
	return writeFile(path("kube-proxy.conf"), proxy)
}

func (n *Node) startEtcd(context.Context) error {
	url, peer := "https://"+Address+":2379", "https://"+Address+":2380"
	return n.start("etcd", n.plane.Etcd, "--name="+Name, "--data-dir="+path("etcd"), "--log-level=warn",
		"--listen-client-urls="+url, "--advertise-client-urls="+url, "--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster="+Name+"="+peer,
		"--client-cert-auth", "--trusted-ca-file="+path("pki/etcd/ca.crt"), "--cert-file="+path("pki/etcd/server.crt"), "--key-file="+path("pki/etcd/server.key"),
		"--peer-client-cert-auth", "--peer-trusted-ca-file="+path("pki/etcd/ca.crt"), "--peer-cert-file="+path("pki/etcd/peer.crt"), "--peer-key-file="+path("pki/etcd/peer.key"))
}

func (n *Node) startAPIServer(ctx context.Context) error {
	err := n.start("kube-apiserver", n.plane.APIServer, "--advertise-address="+Address, "--bind-address="+Address, "--secure-port=6443",
		"--service-cluster-ip-range="+Services, "--allow-privileged=true", "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--client-ca-file="+path("pki/ca.crt"), "--tls-cert-file="+path("pki/apiserver.crt"), "--tls-private-key-file="+path("pki/apiserver.key"),
		"--etcd-servers=https://"+Address+":2379", "--etcd-cafile="+path("pki/etcd/ca.crt"), "--etcd-certfile="+path("pki/apiserver-etcd-client.crt"), "--etcd-keyfile="+path("pki/apiserver-etcd-client.key"),
		"--kubelet-client-certificate="+path("pki/apiserver-kubelet-client.crt"), "--kubelet-client-key="+path("pki/apiserver-kubelet-client.key"), "--kubelet-preferred-address-types=InternalIP",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local", "--service-account-key-file="+path("pki/sa.pub"), "--service-account-signing-key-file="+path("pki/sa.key"),
		"--requestheader-client-ca-file="+path("pki/front-proxy-ca.crt"), "--requestheader-allowed-names=front-proxy-client", "--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group", "--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file="+path("pki/front-proxy-client.crt"), "--proxy-client-key-file="+path("pki/front-proxy-client.key"))
	if err != nil {
		return err
	}
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // it is only asked whether it is ready
	defer client.CloseIdleConnections()
	err = until(ctx, "the API server is ready", func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+Address+":6443/readyz", nil)
		if err != nil {
			return err
		}
		answer, err := client.Do(req)
		if err != nil {
			return fmt.Errorf("%w\n%s", err, logEnd("kube-apiserver"))
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("%s\n%s", answer.Status, logEnd("kube-apiserver"))
		}
		return nil
	})
	if err != nil {
		return err
	}
	return n.apply(ctx, clusterManifest)
}

// apply applies a manifest with the rights that need no binding.
func (n *Node) apply(ctx context.Context, manifest string) error {
	_, err := run(ctx, fill(manifest), n.plane.Kubectl, "--kubeconfig", path("super-admin.conf"), "apply", "--server-side", "-f", "-")
	return err
}

func (n *Node) kubectl(ctx context.Context, args ...string) (string, error) {
	return run(ctx, "", n.plane.Kubectl, append([]string{"--kubeconfig", Kubeconfig()}, args...)...)
}

func (n *Node) startControllers(context.Context) error {
	err := n.start("kube-controller-manager", n.plane.ControllerManager, "--kubeconfig="+path("controller-manager.conf"), "--leader-elect=false", "--secure-port=0",
		"--use-service-account-credentials=true", "--root-ca-file="+path("pki/ca.crt"), "--service-account-private-key-file="+path("pki/sa.key"),
		"--cluster-signing-cert-file="+path("pki/ca.crt"), "--cluster-signing-key-file="+path("pki/ca.key"))
	if err != nil {
		return err
	}
	return n.start("kube-scheduler", n.plane.Scheduler, "--kubeconfig="+path("scheduler.conf"), "--leader-elect=false", "--secure-port=0")
}

func (n *Node) startDNS(ctx context.Context) error {
	if err := n.apply(ctx, dnsManifest); err != nil {
		return err
	}
	_, err := n.kubectl(ctx, "rollout", "status", "--namespace=kube-system", "deployment/coredns", "--timeout=2m")
	return err
}

// startVolumes starts this program again as the provisioner.
func (n *Node) startVolumes(context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return n.start("volumes", self, "volumes")
}
