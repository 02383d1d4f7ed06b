package local

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/provider/local/node"
)

// Options of a provider. Dir is required.
type Options struct {
	// Dir holds all VMs and networks. New creates it.
	Dir string
	// Installation is the tag that List selects by; empty: any.
	Installation string
	// Command runs a node; Pawl appends "--dir" and the directory. Default: this program with
	// the argument node.
	Command []string
	// Env is added to the environment of nodes, which otherwise holds only PATH.
	Env []string

	MaxVMs   int // of this machine: 64
	Cores    int // of all VMs together: 128
	MemoryMB int // of all VMs together: 131072

	Offerings []Offering // default: small, medium
	Templates []Template // the first is the default; default: node-1.0, node-1.1

	// OneAddress gives each VM its own ports on 127.0.0.1 instead of its own address. It is
	// set automatically on machines with one loopback address.
	OneAddress bool

	Patience    time.Duration // how long a call waits for its action before the caller must poll: 2 s
	StartWithin time.Duration // time until a process that does not answer is no longer Starting: 20 s
	StopWithin  time.Duration // from SIGTERM to SIGKILL when a VM is destroyed: 10 s
	Times       node.Times    // intervals of the nodes
	Now         func() time.Time
}

// Offering is a size of VM.
type Offering struct {
	ID, Name string
	Cores    int
	MemoryMB int
}

// Template is a version of the node program.
type Template struct {
	ID, Name string
	Version  string // as reported by nodes
}

// Names in the catalog.
const (
	ZoneID            = "local"
	NetworkOfferingID = "loopback"
)

// userDataLimit is the limit of the strictest provider, so that user data fit everywhere.
const userDataLimit = 32 << 10

func (o Options) filled() (Options, error) {
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return o, err
	}
	o.Dir = dir
	if len(o.Command) == 0 {
		self, err := os.Executable()
		if err != nil {
			return o, err
		}
		o.Command = []string{self, "node"}
	}
	o.MaxVMs, o.Cores, o.MemoryMB = cmp.Or(o.MaxVMs, 64), cmp.Or(o.Cores, 128), cmp.Or(o.MemoryMB, 128<<10)
	if len(o.Offerings) == 0 {
		o.Offerings = []Offering{{ID: "small", Name: "small", Cores: 1, MemoryMB: 1024}, {ID: "medium", Name: "medium", Cores: 2, MemoryMB: 2048}}
	}
	if len(o.Templates) == 0 {
		o.Templates = []Template{{ID: "node-1.0", Name: "node-1.0", Version: "1.0.0"}, {ID: "node-1.1", Name: "node-1.1", Version: "1.1.0"}}
	}
	o.Patience, o.StartWithin, o.StopWithin = cmp.Or(o.Patience, 2*time.Second), cmp.Or(o.StartWithin, 20*time.Second), cmp.Or(o.StopWithin, 10*time.Second)
	if o.Now == nil {
		o.Now = time.Now
	}
	return o, nil
}

// offering by id or name; empty: the first.
func (o Options) offering(id string) (Offering, bool) {
	if id == "" {
		return o.Offerings[0], true
	}
	i := slices.IndexFunc(o.Offerings, func(f Offering) bool { return f.ID == id || f.Name == id })
	if i < 0 {
		return Offering{}, false
	}
	return o.Offerings[i], true
}

// template by id or name; empty: the first.
func (o Options) template(id string) (Template, bool) {
	if id == "" {
		return o.Templates[0], true
	}
	i := slices.IndexFunc(o.Templates, func(t Template) bool { return t.ID == id || t.Name == id })
	if i < 0 {
		return Template{}, false
	}
	return o.Templates[i], true
}
