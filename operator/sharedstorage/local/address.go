package local

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"syscall"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// Ports of an instance that has an address of its own.
const (
	enginePort  = 5432
	agentPort   = 7298
	managerPort = 7297
)

// endpoints is where the engine and the agent of an instance listen.
type endpoints struct {
	Address string
	Engine  int32
	Agent   int32
}

// freeEndpoints chooses a free address in 127.32.0.0/11. On a system with one address only it
// chooses free ports of it. taken has the host:port of everything that is not running now.
func (s *Placement) freeEndpoints(engine, agent int32, taken map[string]bool) (endpoints, error) {
	if engine == 0 {
		engine = enginePort
	}
	if !s.o.OneAddress {
		for range 200 {
			at := endpoints{fmt.Sprintf("127.%d.%d.%d", 32+rand.IntN(32), rand.IntN(256), 1+rand.IntN(250)), engine, agent}
			if taken[at.Address] {
				continue
			}
			err := errors.Join(free(at.Address, at.Engine), free(at.Address, at.Agent))
			if err == nil {
				return at, nil
			}
			if errors.Is(err, syscall.EADDRNOTAVAIL) { // the system has 127.0.0.1 only
				break
			}
		}
	}
	at := endpoints{Address: "127.0.0.1", Engine: engine}
	var err error
	if engine == enginePort || taken[join(at.Address, engine)] || free(at.Address, engine) != nil {
		if at.Engine, err = freePort(taken); err != nil {
			return at, err
		}
	}
	taken[join(at.Address, at.Engine)] = true
	at.Agent, err = freePort(taken)
	return at, err
}

// freePort chooses a port below the range that the kernel gives to connections, so that a process
// that is stopped for a while finds its own port free again.
func freePort(taken map[string]bool) (int32, error) {
	for range 200 {
		p := int32(20_000 + rand.IntN(12_000))
		if !taken[join("127.0.0.1", p)] && free("127.0.0.1", p) == nil {
			return p, nil
		}
	}
	return 0, port.PodUnscheduled.Errorf("no port of 127.0.0.1 is free")
}

func free(address string, p int32) error {
	l, err := net.Listen("tcp", join(address, p))
	if err != nil {
		return err
	}
	return l.Close()
}

func join(address string, p int32) string { return net.JoinHostPort(address, strconv.Itoa(int(p))) }

func compareNames(a, b string) int { return strings.Compare(a, b) }
