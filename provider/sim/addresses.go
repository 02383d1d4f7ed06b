package sim

import "fmt"

// addresses counts the addresses and the networks that were assigned so far.
type addresses struct {
	public   int
	networks int
	hosts    int // of VMs without a network
}

func (a *addresses) nextPublic() string {
	a.public++
	n := a.public + 1
	return fmt.Sprintf("198.%d.%d.%d", 18+n>>16&1, n>>8&255, n&255)
}

func (a *addresses) nextHost() string {
	a.hosts++
	return fmt.Sprintf("172.%d.%d.%d", 16+a.hosts>>16&15, a.hosts>>8&255, a.hosts&255)
}

// nextNetwork returns the index of the next network in 10.0.0.0/8.
func (a *addresses) nextNetwork() int {
	a.networks++
	return a.networks
}
