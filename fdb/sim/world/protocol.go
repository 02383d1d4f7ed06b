package world

import (
	"encoding/gob"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/fdb/sim"
)

// AddressVariable is the environment variable in which programs find the address of their world: the path of a
// Unix socket, or host:port.
const AddressVariable = "FDBSIM_WORLD"

// Request is the first message of a connection: what the program is, and what it wants. One field is set.
type Request struct {
	Server  *Server
	Run     *sim.Run
	Session *Session
	Agent   *Agent
	Watch   *Watch

	// Owner is the instance of the operator on whose behalf a tool runs; empty: nobody's, so that what it causes
	// is judged as an accident.
	Owner string
}

// Server is an fdbserver that starts.
type Server struct {
	sim.Server
	// Place is where its data folder is: a folder that was there before and is another one now was wiped. Empty:
	// not known.
	Place string
}

// Session is an interactive fdbcli. Its lines follow as Input.
type Session struct {
	Version    fdb.Version
	Connection fdb.Connection
	File       string // the path of its cluster file, which it prints
	NoStatus   bool   // it does not look at the database first
}

// Agent is a backup agent, which works as long as the connection lasts.
type Agent struct{ Connection fdb.Connection }

// Watch asks for the transcript of a database from now on.
type Watch struct{ Connection fdb.Connection }

// Input is what the program sends after its Request.
type Input struct{ Line string }

// Event is what the world sends.
type Event struct {
	Stdout, Stderr []byte
	Prompt         bool   // the session waits for a line
	Connection     string // the new content of the cluster file
	Ended          bool   // the program ends now, with this exit code; -1: as if it were killed
	Exit           int
}

// Peer is the program's end of a connection to a world. One goroutine may send while another one receives.
type Peer struct {
	conn    net.Conn
	encoder *gob.Encoder
	decoder *gob.Decoder
}

// Listen opens the socket of a world, for every user of the machine: pods may have users of their own. A socket that
// an earlier world has left is replaced.
func Listen(address string) (net.Listener, error) {
	network := networkOf(address)
	if network == "unix" {
		os.Remove(address)
	}
	l, err := net.Listen(network, address)
	if err != nil {
		return nil, fmt.Errorf("a world at %s: %w", address, err)
	}
	if network == "unix" {
		if err := os.Chmod(address, 0o666); err != nil { //nolint:gosec // who can reach its folder may use it
			l.Close()
			return nil, fmt.Errorf("a world at %s: %w", address, err)
		}
	}
	return l, nil
}

func networkOf(address string) string {
	if strings.Contains(address, "/") {
		return "unix"
	}
	return "tcp"
}

// Dial reaches the world at an address as AddressVariable has it.
func Dial(address string, patience time.Duration) (*Peer, error) {
	conn, err := net.DialTimeout(networkOf(address), address, patience)
	if err != nil {
		return nil, fmt.Errorf("the world at %s: %w", address, err)
	}
	return NewPeer(conn), nil
}

// NewPeer makes a Peer of a connection that stands.
func NewPeer(conn net.Conn) *Peer {
	return &Peer{conn: conn, encoder: gob.NewEncoder(conn), decoder: gob.NewDecoder(conn)}
}

// Ask sends the request.
func (p *Peer) Ask(r Request) error { return p.encoder.Encode(r) }

// Type sends a line to the session.
func (p *Peer) Type(line string) error { return p.encoder.Encode(Input{Line: line}) }

// Next waits for the next event. It fails with io.EOF when the world has gone.
func (p *Peer) Next() (Event, error) {
	var e Event
	err := p.decoder.Decode(&e)
	if err != nil {
		err = io.EOF
	}
	return e, err
}

// Close ends the connection: the world takes the program for dead.
func (p *Peer) Close() error { return p.conn.Close() }
