package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/fdb"
)

// clients are the programs that use the database.
type clients struct {
	c    *Cluster
	list []Client
}

// Client is a program that uses the database.
type Client struct {
	Address  string // ip:port
	LogGroup string
	Versions []fdb.Version // of the libraries it has, in any order
	// Writes is how often it writes a key; 0: never. It never writes the same key twice.
	Writes time.Duration

	acknowledged int
	attempts     int
	last         time.Duration // of its last acknowledged write
	gap          time.Duration // the longest time between two of them
}

// newest returns the newest version that a client has.
func (cl *Client) newest() fdb.Version {
	return slices.MaxFunc(cl.Versions, fdb.Version.Compare)
}

// Connect adds a client.
func (cs *clients) Connect(cl Client) {
	cs.Disconnect(cl.Address)
	cl.last = cs.c.clock.now
	cs.list = append(cs.list, cl)
	if cl.Writes > 0 {
		cs.writeLater(cl.Address, cl.Writes)
	}
}

// Disconnect removes the client at an address.
func (cs *clients) Disconnect(address string) {
	cs.list = slices.DeleteFunc(cs.list, func(cl Client) bool { return cl.Address == address })
}

func (cs *clients) at(address string) *Client {
	at := slices.IndexFunc(cs.list, func(cl Client) bool { return cl.Address == address })
	if at < 0 {
		return nil
	}
	return &cs.list[at]
}

// writeLater has a client write its next key.
func (cs *clients) writeLater(address string, every time.Duration) {
	cs.c.clock.after(every, func() {
		if cl := cs.at(address); cl != nil {
			cs.write(cl)
			cs.writeLater(address, every)
		}
	})
}

func (cl *Client) key(n int) string { return fmt.Sprintf("client/%s/%06d", cl.Address, n) }

// write tries to write the next key, and counts it when the database says that it is there.
func (cs *clients) write(cl *Client) {
	if !slices.ContainsFunc(cl.Versions, cs.c.coordination.protocol.ProtocolCompatible) {
		return
	}
	t := cs.c.Transaction()
	t.Write(fdb.Set(cl.key(cl.attempts), []byte{1}))
	if err := t.Commit(); err != nil {
		return
	}
	cl.attempts++
	cl.acknowledged = cl.attempts
	cl.gap = max(cl.gap, cs.c.clock.now-cl.last)
	cl.last = cs.c.clock.now
}

// Written is what has become of a client's writes.
type Written struct {
	Acknowledged int
	Missing      []string      // acknowledged keys that are not there
	Gap          time.Duration // the longest time between two acknowledgements
}

// Written looks for all keys that a client was told to be there.
func (cs *clients) Written(address string) Written {
	cl := cs.at(address)
	if cl == nil {
		return Written{}
	}
	w := Written{Acknowledged: cl.acknowledged, Gap: max(cl.gap, cs.c.clock.now-cl.last)}
	for n := range cl.acknowledged {
		if _, present := cs.c.keys.at(cl.key(n), 1<<62); !present {
			w.Missing = append(w.Missing, cl.key(n))
		}
	}
	return w
}
