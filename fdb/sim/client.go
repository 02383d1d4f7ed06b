package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/fdb"
)

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
func (c *Cluster) Connect(cl Client) {
	c.Disconnect(cl.Address)
	cl.last = c.clock.now
	c.clients = append(c.clients, cl)
	if cl.Writes > 0 {
		c.writeLater(cl.Address, cl.Writes)
	}
}

// Disconnect removes the client at an address.
func (c *Cluster) Disconnect(address string) {
	c.clients = slices.DeleteFunc(c.clients, func(cl Client) bool { return cl.Address == address })
}

func (c *Cluster) client(address string) *Client {
	at := slices.IndexFunc(c.clients, func(cl Client) bool { return cl.Address == address })
	if at < 0 {
		return nil
	}
	return &c.clients[at]
}

// writeLater has a client write its next key.
func (c *Cluster) writeLater(address string, every time.Duration) {
	c.clock.after(every, func() {
		if cl := c.client(address); cl != nil {
			c.write(cl)
			c.writeLater(address, every)
		}
	})
}

func (cl *Client) key(n int) string { return fmt.Sprintf("client/%s/%06d", cl.Address, n) }

// write tries to write the next key, and counts it when the database says that it is there.
func (c *Cluster) write(cl *Client) {
	if !slices.ContainsFunc(cl.Versions, c.coordination.protocol.ProtocolCompatible) {
		return
	}
	t := c.Transaction()
	t.Write(fdb.Set(cl.key(cl.attempts), []byte{1}))
	if err := t.Commit(); err != nil {
		return
	}
	cl.attempts++
	cl.acknowledged = cl.attempts
	cl.gap = max(cl.gap, c.clock.now-cl.last)
	cl.last = c.clock.now
}

// Written is what has become of a client's writes.
type Written struct {
	Acknowledged int
	Missing      []string      // acknowledged keys that are not there
	Gap          time.Duration // the longest time between two acknowledgements
}

// Written looks for all keys that a client was told to be there.
func (c *Cluster) Written(address string) Written {
	cl := c.client(address)
	if cl == nil {
		return Written{}
	}
	w := Written{Acknowledged: cl.acknowledged, Gap: max(cl.gap, c.clock.now-cl.last)}
	for n := range cl.acknowledged {
		if _, present := c.keys.at(cl.key(n), 1<<62); !present {
			w.Missing = append(w.Missing, cl.key(n))
		}
	}
	return w
}
