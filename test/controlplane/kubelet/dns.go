package kubelet

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
)

const (
	clusterDomain = "svc.cluster.local"
	resolvConf    = "/etc/resolv.conf"
)

// names is the DNS server of the pods: SERVICE.NAMESPACE.svc.cluster.local are the pods of a Service
// that are ready, with HOSTNAME before it one of them. As nothing routes cluster IPs, all Services
// are like headless ones. EndpointSlices are of no use here: the API server takes no loopback
// addresses for them.
type names struct {
	services corelisters.ServiceLister
	pods     corelisters.PodLister
	address  string
	conn     net.PacketConn
	dir      string // of a resolv.conf for each namespace
	log      func(string, ...any)
}

// listenDNS binds the server. It needs the right to bind port 53.
func listenDNS(address, dir string, services corelisters.ServiceLister, pods corelisters.PodLister, log func(string, ...any)) (*names, error) {
	conn, err := (&net.ListenConfig{}).ListenPacket(context.Background(), "udp", net.JoinHostPort(address, "53"))
	if err != nil {
		return nil, fmt.Errorf("the DNS server of the pods: %w", err)
	}
	return &names{services: services, pods: pods, address: address, conn: conn, dir: dir, log: log}, os.MkdirAll(dir, 0o755)
}

// serve answers until the connection is closed.
func (n *names) serve() {
	packet := make([]byte, 4096)
	for {
		size, from, err := n.conn.ReadFrom(packet)
		if err != nil {
			return
		}
		answer, err := n.answer(packet[:size])
		if err == nil {
			_, err = n.conn.WriteTo(answer, from)
		}
		if err != nil {
			n.log("kubelet: DNS: %v", err)
		}
	}
}

func (n *names) answer(packet []byte) ([]byte, error) {
	var p dnsmessage.Parser
	header, err := p.Start(packet)
	if err != nil {
		return nil, err
	}
	question, err := p.Question()
	if err != nil {
		return nil, err
	}
	addresses, known := n.lookup(question.Name.String())
	header = dnsmessage.Header{ID: header.ID, Response: true, Authoritative: true, RecursionDesired: header.RecursionDesired, RecursionAvailable: true}
	if !known {
		header.RCode = dnsmessage.RCodeNameError
	}
	b := dnsmessage.NewBuilder(nil, header)
	if err := b.StartQuestions(); err != nil {
		return nil, err
	}
	if err := b.Question(question); err != nil {
		return nil, err
	}
	if err := b.StartAnswers(); err != nil {
		return nil, err
	}
	for _, address := range addresses {
		if question.Type != dnsmessage.TypeA {
			break
		}
		head := dnsmessage.ResourceHeader{Name: question.Name, Class: dnsmessage.ClassINET, TTL: 0}
		if err := b.AResource(head, dnsmessage.AResource{A: address.As4()}); err != nil {
			return nil, err
		}
	}
	return b.Finish()
}

// lookup returns the addresses of a name. A Service without ready pods is known, and has none.
func (n *names) lookup(name string) (addresses []netip.Addr, known bool) {
	short, inCluster := strings.CutSuffix(strings.ToLower(strings.TrimSuffix(name, ".")), "."+clusterDomain)
	parts := strings.Split(short, ".")
	host := ""
	if len(parts) == 3 {
		host, parts = parts[0], parts[1:]
	}
	if !inCluster || len(parts) != 2 {
		return nil, false
	}
	service, err := n.services.Services(parts[1]).Get(parts[0])
	if err != nil || len(service.Spec.Selector) == 0 {
		return nil, false
	}
	pods, err := n.pods.Pods(parts[1]).List(labels.SelectorFromSet(service.Spec.Selector))
	if err != nil {
		return nil, false
	}
	for _, pod := range pods {
		named := host == "" || pod.Spec.Hostname == host && pod.Spec.Subdomain == service.Name
		if !named || over(pod) || !service.Spec.PublishNotReadyAddresses && !is(pod.Status.Conditions, corev1.PodReady) {
			continue
		}
		if a, err := netip.ParseAddr(pod.Status.PodIP); err == nil && a.Is4() {
			addresses = append(addresses, a)
		}
	}
	return addresses, host == "" || addresses != nil
}

// resolvConf writes the file that the containers of a namespace have as /etc/resolv.conf.
func (n *names) resolvConf(namespace string) (string, error) {
	path := filepath.Join(n.dir, namespace)
	text := fmt.Sprintf("nameserver %s\nsearch %s.%s %s cluster.local\noptions ndots:5\n", n.address, namespace, clusterDomain, clusterDomain)
	if old, err := os.ReadFile(path); err == nil && string(old) == text {
		return path, nil
	}
	return path, os.WriteFile(path, []byte(text), 0o644)
}

// Resolver resolves the names of pods and Services as the pods do; nil without Options.DNS.
func (k *Kubelet) Resolver() *net.Resolver {
	if k.names == nil {
		return nil
	}
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", net.JoinHostPort(k.names.address, "53"))
	}}
}
