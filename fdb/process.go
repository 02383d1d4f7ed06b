package fdb

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/fdb/internal/document"
)

// The localities that judgements read beside InstanceLocality.
const (
	ZoneLocality       = "zoneid"
	DatacenterLocality = "dcid"
	DataHallLocality   = "data_hall"
	DNSNameLocality    = "dns_name"
)

// Process is one process that reports to the cluster controller.
type Process struct {
	ID               string            `json:"-"`                // the name of its member in the document
	Address          Address           `json:"address,omitzero"` // zero: missing or unreadable
	Class            Class             `json:"class_type,omitempty"`
	CommandLine      string            `json:"command_line,omitempty"`
	Version          string            `json:"version,omitempty"`
	Locality         map[string]string `json:"locality,omitzero"`
	Excluded         *bool             `json:"excluded,omitempty"`
	UnderMaintenance bool              `json:"under_maintenance,omitempty"` // absent when false
	UptimeSeconds    *float64          `json:"uptime_seconds,omitempty"`
	RunLoopBusy      *float64          `json:"run_loop_busy,omitempty"`
	Roles            []Role            `json:"roles,omitzero"`
	Messages         []ProcessMessage  `json:"messages,omitzero"`
}

// Role is a role of a process.
type Role struct {
	Role        string `json:"role,omitempty"`
	ID          string `json:"id,omitempty"`
	StoredBytes *int64 `json:"stored_bytes,omitempty"`
}

// ProcessMessage is an error or an issue that a process reports.
type ProcessMessage struct {
	Name string   `json:"name,omitempty"`
	Type string   `json:"type,omitempty"`
	Time *float64 `json:"time,omitempty"`
}

// Processes are the processes of a document, in its order. Two entries of one id are both kept: the
// cluster controller writes one entry a worker, whatever id the worker has
// (fdbserver/Status.actor.cpp, processStatusFetcher, 7.3.69).
type Processes []Process

// DNSName is the name at which the process can be found; empty: by its address only. A pod of the split image that was
// made before names were in use has no name, and its sidecar leaves the variable in the file as it stands
// (foundationdb 7.3.69, packaging/docker/sidecar.py, copy_monitor_conf): that is no name.
func (p Process) DNSName() string {
	if name := p.Locality[DNSNameLocality]; !strings.HasPrefix(name, "$") {
		return name
	}
	return ""
}

// name is what messages call the process.
func (p Process) name() string {
	if id := p.Locality[InstanceLocality]; id != "" {
		return id
	}
	if p.Address != (Address{}) {
		return p.Address.String()
	}
	return p.ID
}

// MarshalJSON writes an object with one member a process, as it stands in a document.
func (p Processes) MarshalJSON() ([]byte, error) {
	b := []byte("{")
	for i, process := range p {
		id, err := json.Marshal(process.ID)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(process)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, id...), ':'), value...)
	}
	return append(b, '}'), nil
}

func readProcesses(d *document.Document) Processes {
	found := Processes{}
	if !d.Members(func(id string) {
		found = append(found, Process{ID: id})
		found[len(found)-1].read(d)
	}) {
		return nil
	}
	return found
}

func (p *Process) read(d *document.Document) {
	d.Members(func(name string) {
		switch name {
		case "address":
			p.Address = readAddress(d)
		case "class_type":
			p.Class = Class(d.Str())
		case "command_line":
			p.CommandLine = d.Str()
		case "version":
			p.Version = d.Str()
		case "locality":
			p.Locality = map[string]string{}
			d.Members(func(name string) {
				if value, ok := d.Text(); ok {
					p.Locality[name] = value
				}
			})
		case "excluded":
			p.Excluded = d.Boolean()
		case "under_maintenance":
			under := d.Boolean()
			p.UnderMaintenance = under != nil && *under
		case "uptime_seconds":
			p.UptimeSeconds = d.Number()
		case "run_loop_busy":
			p.RunLoopBusy = d.Number()
		case "roles":
			p.Roles = document.List(d, func(r *Role, name string) {
				switch name {
				case "role":
					r.Role = d.Str()
				case "id":
					r.ID = d.Str()
				case "stored_bytes":
					r.StoredBytes = d.Whole()
				default:
					d.Skip()
				}
			})
		case "messages":
			p.Messages = document.List(d, func(m *ProcessMessage, name string) {
				switch name {
				case "name":
					m.Name = d.Str()
				case "type":
					m.Type = d.Str()
				case "time":
					m.Time = d.Number()
				default:
					d.Skip()
				}
			})
		default:
			d.Skip()
		}
	})
}

// Addresses returns every address the process listens on, as far as the document says so: the one it
// reports and those of its command line.
func (p Process) Addresses() []Address {
	var found []Address
	if p.Address != (Address{}) {
		found = append(found, p.Address)
	}
	more, err := CommandLineAddresses(p.CommandLine)
	if err != nil {
		return found
	}
	for _, a := range more {
		if !slices.Contains(found, a) {
			found = append(found, a)
		}
	}
	return found
}

// addressOf returns the address of the wanted kind. Most processes have one address, so the command
// line is read only if that does not do.
func (p Process) addressOf(tls bool) (Address, bool) {
	if p.Address.TLS == tls && p.Address.Port != 0 {
		return p.Address, true
	}
	for _, a := range p.Addresses() {
		if a.TLS == tls && a.Port != 0 {
			return a, true
		}
	}
	return Address{}, false
}

// at reports whether the process listens on an address, given as an IP or as the DNS name of the
// process. The flag counts: an address with TLS is another one than without.
func (p Process) at(a Address) bool {
	return p.listen(a, func(own Address) bool { return own.Port == a.Port && own.TLS == a.TLS })
}

// listens is at for an address of which the flag does not count, and that without a port stands for
// all ports.
func (p Process) listens(a Address) bool {
	return p.listen(a, func(own Address) bool { return a.Port == 0 || own.Port == a.Port })
}

// listen looks for an address of the host that is as it should be. Reading command lines costs most,
// so that is left out where the host does not occur in it; an IPv6 address can be written in many ways.
func (p Process) listen(a Address, fits func(own Address) bool) bool {
	if a.Host == "" {
		return false
	}
	named := strings.EqualFold(p.DNSName(), a.Host)
	here := func(own Address) bool { return (named || strings.EqualFold(own.Host, a.Host)) && fits(own) }
	switch {
	case p.Address != (Address{}) && here(p.Address):
		return true
	case !named && !strings.Contains(a.Host, ":") && !strings.Contains(p.CommandLine, a.Host):
		return false
	}
	return slices.ContainsFunc(p.Addresses(), here)
}
