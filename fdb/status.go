package fdb

import (
	"bytes"
	"encoding/json"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb/internal/document"
)

// StatusUnreadable is returned for a status document that is not one JSON object.
var StatusUnreadable = fault.Declare(fault.Kind{
	Code: "FDB_STATUS_UNREADABLE", Class: fault.Transient,
	Title:  "the status document of the database cannot be read",
	Remedy: "Run fdbcli --exec 'status json' in a pod of the cluster and compare. A document that was cut off comes again with the next look.",
	Guide:  "foundationdb.md#if-it-does-not-go-on",
})

// Status is what the judgements need of a status document (`status json`). Names are those of the
// document (fdbclient/Schemas.cpp, 7.1.67, 7.3.69, 7.4.6). Any field of a document can be missing at
// any time (documentation/sphinx/source/mr-status.rst, 7.3.69): a pointer or list that is nil was
// not in it, and no judgement takes that for good news.
type Status struct {
	Client  ClientStatus  `json:"client"`
	Cluster ClusterStatus `json:"cluster"`
}

// ClientStatus is what the client that asked sees by itself.
type ClientStatus struct {
	Coordinators   CoordinatorStatus `json:"coordinators"`
	DatabaseStatus DatabaseStatus    `json:"database_status"`
	Messages       []Message         `json:"messages,omitzero"`
}

// CoordinatorStatus are the coordinators of the client's cluster file.
type CoordinatorStatus struct {
	Coordinators    []Coordinator `json:"coordinators,omitzero"`
	QuorumReachable *bool         `json:"quorum_reachable,omitempty"`
}

// Coordinator is one coordinator as the client sees it.
type Coordinator struct {
	Address   Address `json:"address,omitzero"` // zero: missing or unreadable
	Reachable *bool   `json:"reachable,omitempty"`
}

// DatabaseStatus is the client's summary.
type DatabaseStatus struct {
	Available *bool `json:"available,omitempty"`
	Healthy   *bool `json:"healthy,omitempty"`
}

// Message is a message about the cluster, or about the fetching of the document.
type Message struct {
	Name                 string               `json:"name,omitempty"`
	Description          string               `json:"description,omitempty"`
	UnreachableProcesses []UnreachableProcess `json:"unreachable_processes,omitzero"`
}

// UnreachableProcess is a process that the cluster controller cannot reach.
type UnreachableProcess struct {
	Address Address `json:"address,omitzero"`
}

// ClusterStatus is what the cluster controller says.
type ClusterStatus struct {
	Processes               Processes      `json:"processes,omitzero"`
	Configuration           *Configuration `json:"configuration,omitempty"`
	Data                    DataStatus     `json:"data"`
	Logs                    []LogStatus    `json:"logs,omitzero"`
	QoS                     QoS            `json:"qos"`
	RecoveryState           RecoveryState  `json:"recovery_state"`
	BounceImpact            BounceImpact   `json:"bounce_impact"`
	Clients                 *Clients       `json:"clients,omitempty"`
	Layers                  Layers         `json:"layers"`
	Messages                []Message      `json:"messages,omitzero"`
	ConnectionString        string         `json:"connection_string,omitempty"`
	DatabaseAvailable       *bool          `json:"database_available,omitempty"`
	DatabaseLockState       LockState      `json:"database_lock_state"`
	FullReplication         *bool          `json:"full_replication,omitempty"`
	Generation              *int           `json:"generation,omitempty"`
	IncompatibleConnections []string       `json:"incompatible_connections,omitzero"`
	MaintenanceZone         string         `json:"maintenance_zone,omitempty"`
	MaintenanceSeconds      *float64       `json:"maintenance_seconds_remaining,omitempty"`
	ActivePrimaryDC         string         `json:"active_primary_dc,omitempty"`
}

// BounceImpact says whether a restart is clean, which it is when the cluster is fully recovered.
type BounceImpact struct {
	CanCleanBounce *bool `json:"can_clean_bounce,omitempty"`
}

// Layers is the state of layers; Error is configurationMissing when the database has no configuration.
type Layers struct {
	Valid *bool  `json:"_valid,omitempty"`
	Error string `json:"_error,omitempty"`
}

// LockState says whether the database is locked, as it is during a restore.
type LockState struct {
	Locked *bool `json:"locked,omitempty"`
}

// ParseStatus reads a status document. Text before the first brace is a warning of fdbcli and is
// skipped; anything but white space behind the object is refused, and so is a document that was cut
// off. A value of an unexpected type counts as missing.
func ParseStatus(text []byte) (*Status, error) {
	start := bytes.IndexByte(text, '{')
	if start < 0 {
		return nil, StatusUnreadable.Errorf("the document has no object")
	}
	d := document.Of(text[start:])
	s := &Status{}
	d.Members(func(name string) {
		switch name {
		case "client":
			s.Client.read(d)
		case "cluster":
			s.Cluster.read(d)
		default:
			d.Skip()
		}
	})
	if at, ok := d.End(); !ok {
		return nil, StatusUnreadable.Errorf("the document is malformed at byte %d of %d", start+at, len(text))
	}
	return s, nil
}

func (s *ClientStatus) read(d *document.Document) {
	d.Members(func(name string) {
		switch name {
		case "coordinators":
			s.Coordinators.read(d)
		case "database_status":
			d.Members(func(name string) {
				switch name {
				case "available":
					s.DatabaseStatus.Available = d.Boolean()
				case "healthy":
					s.DatabaseStatus.Healthy = d.Boolean()
				default:
					d.Skip()
				}
			})
		case "messages":
			s.Messages = readMessages(d)
		default:
			d.Skip()
		}
	})
}

func (s *CoordinatorStatus) read(d *document.Document) {
	d.Members(func(name string) {
		switch name {
		case "coordinators":
			s.Coordinators = document.List(d, func(c *Coordinator, name string) {
				switch name {
				case "address":
					c.Address = readAddress(d)
				case "reachable":
					c.Reachable = d.Boolean()
				default:
					d.Skip()
				}
			})
		case "quorum_reachable":
			s.QuorumReachable = d.Boolean()
		default:
			d.Skip()
		}
	})
}

// readAddress reads an address; the zero value if there is none that can be read.
func readAddress(d *document.Document) Address {
	a, err := ParseAddress(d.Str())
	if err != nil {
		return Address{}
	}
	return a
}

func readMessages(d *document.Document) []Message {
	return document.List(d, func(m *Message, name string) {
		switch name {
		case "name":
			m.Name = d.Str()
		case "description":
			m.Description = d.Str()
		case "unreachable_processes":
			m.UnreachableProcesses = document.List(d, func(p *UnreachableProcess, name string) {
				if name != "address" {
					d.Skip()
					return
				}
				p.Address = readAddress(d)
			})
		default:
			d.Skip()
		}
	})
}

func (s *ClusterStatus) read(d *document.Document) {
	d.Members(func(name string) {
		switch name {
		case "processes":
			s.Processes = readProcesses(d)
		case "configuration":
			s.Configuration = readConfiguration(d.Raw())
		case "data":
			s.Data.read(d)
		case "logs":
			s.Logs = readLogs(d)
		case "qos":
			s.QoS.read(d)
		case "recovery_state":
			s.RecoveryState.read(d)
		case "bounce_impact":
			d.Members(func(name string) {
				if name != "can_clean_bounce" {
					d.Skip()
					return
				}
				s.BounceImpact.CanCleanBounce = d.Boolean()
			})
		case "clients":
			s.Clients = readClients(d)
		case "layers":
			d.Members(func(name string) {
				switch name {
				case "_valid":
					s.Layers.Valid = d.Boolean()
				case "_error":
					s.Layers.Error = d.Str()
				default:
					d.Skip()
				}
			})
		case "messages":
			s.Messages = readMessages(d)
		case "database_lock_state":
			d.Members(func(name string) {
				if name != "locked" {
					d.Skip()
					return
				}
				s.DatabaseLockState.Locked = d.Boolean()
			})
		case "incompatible_connections":
			s.IncompatibleConnections = []string{}
			d.Elements(func() { s.IncompatibleConnections = append(s.IncompatibleConnections, d.Str()) })
		default:
			s.value(d, name)
		}
	})
}

// value reads the members of the cluster section that are single values.
func (s *ClusterStatus) value(d *document.Document, name string) {
	switch name {
	case "connection_string":
		s.ConnectionString = d.Str()
	case "database_available":
		s.DatabaseAvailable = d.Boolean()
	case "full_replication":
		s.FullReplication = d.Boolean()
	case "generation":
		s.Generation = d.Integer()
	case "maintenance_zone":
		s.MaintenanceZone = d.Str()
	case "maintenance_seconds_remaining":
		s.MaintenanceSeconds = d.Number()
	case "active_primary_dc":
		s.ActivePrimaryDC = d.Str()
	default:
		d.Skip()
	}
}

// readConfiguration reads what has the type it should have.
func readConfiguration(raw []byte) *Configuration {
	if !bytes.HasPrefix(raw, []byte("{")) {
		return nil
	}
	c := &Configuration{}
	_ = json.Unmarshal(raw, c)
	return c
}
