package local

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"

	"github.com/pawl-dev/pawl/cluster"
)

// The ports of a VM with its own address.
const (
	healthPort = 7298
	apiPort    = 6443
)

// Networks are 127.64.x.0/24 to 127.126.x.0/24; VMs without one share 127.127.0.0/16.
const (
	firstNet, lastNet = 64, 126
	sharedNet         = 127
)

// freeRange chooses a range for a network.
func freeRange(networks []*record) (string, error) {
	used := map[string]bool{}
	for _, n := range networks {
		used[n.Range] = true
	}
	for range 10_000 {
		r := fmt.Sprintf("127.%d.%d.0/24", firstNet+rand.IntN(lastNet-firstNet+1), rand.IntN(256))
		if !used[r] {
			return r, nil
		}
	}
	return "", cluster.CapacityExhausted.Errorf("no range of addresses is left for a network")
}

// freeEndpoint chooses the endpoint that the control nodes of a network share: the first
// address of the range, which no VM gets, or a port of the only address.
func (p *Provider) freeEndpoint(rangeText string, networks []*record) (string, error) {
	ip, _, err := net.ParseCIDR(rangeText)
	if err != nil {
		return "", cluster.ProviderRefused.Errorf("range %q: %w", rangeText, err)
	}
	used := map[string]bool{}
	for _, n := range networks {
		used[n.Endpoint] = true
	}
	if !p.options.OneAddress {
		own := ip.To4()
		own[3] = 1
		text, err := freePort(own.String(), apiPort, used)
		if !errors.Is(err, syscall.EADDRNOTAVAIL) {
			return text, err
		}
	}
	return freePort("127.0.0.1", 0, used)
}

// listenAddrs are the address and the ports of a VM.
type listenAddrs struct{ address, health, api string }

// freeListenAddrs chooses where a VM listens: a free address of the range, or free ports
// of the only address.
func (p *Provider) freeListenAddrs(rangeText string, vms []*record) (listenAddrs, error) {
	addresses, ports := map[string]bool{}, map[string]bool{}
	for _, vm := range vms {
		addresses[vm.Address] = true
		ports[vm.Node.Health], ports[vm.Node.API] = true, true
	}
	if !p.options.OneAddress {
		h, err := freeLoopbackAddress(rangeText, addresses)
		if !errors.Is(err, syscall.EADDRNOTAVAIL) {
			return h, err
		}
	}
	health, err := freePort("127.0.0.1", 0, ports)
	if err != nil {
		return listenAddrs{}, err
	}
	ports[health] = true
	api, err := freePort("127.0.0.1", 0, ports)
	if err != nil {
		return listenAddrs{}, err
	}
	return listenAddrs{"127.0.0.1", health, api}, nil
}

func freeLoopbackAddress(rangeText string, used map[string]bool) (listenAddrs, error) {
	candidate := func() string {
		return fmt.Sprintf("127.%d.%d.%d", sharedNet, rand.IntN(256), 2+rand.IntN(250))
	}
	if _, ipNet, err := net.ParseCIDR(rangeText); err == nil {
		ip := ipNet.IP.To4()
		next := rand.IntN(250)
		candidate = func() string {
			next++
			return fmt.Sprintf("%d.%d.%d.%d", ip[0], ip[1], ip[2], 2+next%250)
		}
	}
	for range 500 {
		address := candidate()
		if used[address] {
			continue
		}
		health, err := freePort(address, healthPort, nil)
		if err != nil {
			return listenAddrs{}, err
		}
		api, err := freePort(address, apiPort, map[string]bool{health: true})
		return listenAddrs{address, health, api}, err
	}
	return listenAddrs{}, cluster.CapacityExhausted.Errorf("no address is left in %s", rangeText)
}

// freePort returns a free host:port: the given port, or any. It chooses ports below the
// kernel's ephemeral range, so that a VM finds its port free after a stop.
func freePort(address string, port int, used map[string]bool) (string, error) {
	for range 100 {
		if port == 0 {
			port = 20_000 + rand.IntN(12_000)
		}
		text := net.JoinHostPort(address, strconv.Itoa(port))
		port = 0
		if used[text] {
			continue
		}
		listener, err := net.Listen("tcp", text)
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			return "", cluster.ProviderRefused.Errorf("no port on %s: %w", address, err)
		}
		listener.Close()
		return text, nil
	}
	return "", cluster.CapacityExhausted.Errorf("no port is left on %s", address)
}
