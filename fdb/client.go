package fdb

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/pawl-dev/pawl/fdb/internal/document"
)

// Clients are the clients that the cluster controller knows of. The lists are bounded samples.
type Clients struct {
	Count             *int               `json:"count,omitempty"`
	SupportedVersions []SupportedVersion `json:"supported_versions,omitzero"` // absent when no client told its versions
}

// SupportedVersion is one version of the client library and who has it. MaxProtocolClients are those
// for which it is the newest one; absent when there are none (fdbserver/Status.actor.cpp,
// clientStatusFetcher, 7.3.69).
type SupportedVersion struct {
	ClientVersion      string            `json:"client_version,omitempty"`
	ProtocolVersion    string            `json:"protocol_version,omitempty"`
	MaxProtocolCount   *int              `json:"max_protocol_count,omitempty"`
	MaxProtocolClients []ConnectedClient `json:"max_protocol_clients,omitzero"`
}

// ConnectedClient is one client.
type ConnectedClient struct {
	Address  string `json:"address,omitempty"`
	LogGroup string `json:"log_group,omitempty"`
}

func readClients(d *document.Document) *Clients {
	c := &Clients{}
	if !d.Members(func(name string) {
		switch name {
		case "count":
			c.Count = d.Integer()
		case "supported_versions":
			c.SupportedVersions = document.List(d, func(v *SupportedVersion, name string) {
				switch name {
				case "client_version":
					v.ClientVersion = d.Str()
				case "protocol_version":
					v.ProtocolVersion = d.Str()
				case "max_protocol_count":
					v.MaxProtocolCount = d.Integer()
				case "max_protocol_clients":
					v.MaxProtocolClients = document.List(d, func(c *ConnectedClient, name string) {
						switch name {
						case "address":
							c.Address = d.Str()
						case "log_group":
							c.LogGroup = d.Str()
						default:
							d.Skip()
						}
					})
				default:
					d.Skip()
				}
			})
		default:
			d.Skip()
		}
	}) {
		return nil
	}
	return c
}

// Client is a client that holds an upgrade back. Without an address it stands for clients that the
// status counts but does not name.
type Client struct {
	Address  string `json:"address,omitempty"`
	LogGroup string `json:"logGroup,omitempty"`
	Version  string `json:"version,omitempty"` // the newest it speaks; empty: not known
}

// String returns the client with what is known of it.
func (c Client) String() string {
	text := cmp.Or(c.Address, "clients that the status does not name")
	if c.LogGroup != "" {
		text += " (" + c.LogGroup + ")"
	}
	if c.Version != "" {
		text += fmt.Sprintf(" with at most %s", c.Version)
	}
	return text
}

// UnsupportedClients returns the clients that would lose the database at the target version: those
// whose newest library neither speaks the protocol of the target nor is at least as new. Clients of
// the ignored log groups, and those on a machine of a server process (of the status, or one of the
// given addresses), do not count; they are tools of an operator or in a server's pod.
//
// The lists of the status are samples, so an empty result is no proof that there is no such client. A
// status that names no clients although it counts some, or says nothing about clients at all, gives
// one client without address.
func UnsupportedClients(s *Status, target Version, ignoredLogGroups, servers []string) []Client {
	if s == nil || s.Cluster.Clients == nil {
		return []Client{{}}
	}
	clients := s.Cluster.Clients
	if clients.SupportedVersions == nil && (clients.Count == nil || *clients.Count > 0) {
		return []Client{{}}
	}
	onServer := sync.OnceValue(func() map[string]bool { return serverMachines(s, servers) })
	var found []Client
	for _, v := range clients.SupportedVersions {
		if v.ProtocolVersion == "Unknown" || speaks(v.ClientVersion, target) {
			continue
		}
		if v.MaxProtocolClients == nil && present(v.MaxProtocolCount) {
			found = append(found, Client{Version: v.ClientVersion})
		}
		for _, c := range v.MaxProtocolClients {
			if slices.Contains(ignoredLogGroups, c.LogGroup) && c.LogGroup != "" {
				continue
			}
			if a, err := ParseAddress(c.Address); err == nil && onServer()[strings.ToLower(a.Host)] {
				continue
			}
			found = append(found, Client{Address: c.Address, LogGroup: c.LogGroup, Version: v.ClientVersion})
		}
	}
	slices.SortFunc(found, func(a, b Client) int {
		return cmp.Or(cmp.Compare(a.Address, b.Address), cmp.Compare(a.LogGroup, b.LogGroup), cmp.Compare(a.Version, b.Version))
	})
	return slices.Compact(found)
}

// speaks reports whether a client library reaches a server of the target version: a newer one still
// speaks the older protocol.
func speaks(library string, target Version) bool {
	v, err := ParseVersion(library)
	return err == nil && (v.ProtocolCompatible(target) || v.Compare(target) >= 0)
}

// serverMachines are the hosts on which servers run.
func serverMachines(s *Status, servers []string) map[string]bool {
	machines := map[string]bool{}
	for _, p := range s.Cluster.Processes {
		machines[strings.ToLower(p.Address.Host)] = true
	}
	for _, text := range servers {
		if a, err := ParseAddress(text); err == nil {
			machines[strings.ToLower(a.Host)] = true
		}
	}
	delete(machines, "")
	return machines
}

func present(n *int) bool { return n != nil && *n > 0 }
