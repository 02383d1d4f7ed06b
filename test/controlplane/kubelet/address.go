package kubelet

import (
	"fmt"
	"sync"
)

// Addresses assigns loopback addresses 127.<block>.y.z: nodes have y = 0, DNS servers
// y = 255, pods count up from 127.<block>.1.1. An address is reused only after 64,000 others.
type Addresses struct {
	mu               sync.Mutex
	block            int
	nodes, pods, dns int
}

// NewAddresses assigns the addresses of 127.<block>.0.0/16. Two users on one machine need
// two blocks.
func NewAddresses(block int) *Addresses { return &Addresses{block: block} }

func (a *Addresses) node() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.nodes++
	return fmt.Sprintf("127.%d.0.%d", a.block, (a.nodes-1)%254+1)
}

// server returns the address of a DNS server.
func (a *Addresses) server() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.dns++
	return fmt.Sprintf("127.%d.255.%d", a.block, a.dns)
}

func (a *Addresses) pod() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.pods
	a.pods = (a.pods + 1) % (254 * 254)
	return fmt.Sprintf("127.%d.%d.%d", a.block, n/254+1, n%254+1)
}
