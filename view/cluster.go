package view

import (
	"encoding/json"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/api"
	"github.com/pawl-dev/pawl/machine"
)

// Cluster is the JSON form of a container cluster, for `-o json`, the HTTP API and the console.
type Cluster struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	AccountID   string `json:"accountId,omitempty"`
	Account     string `json:"account,omitempty"`
	DomainID    string `json:"domainId,omitempty"`
	Domain      string `json:"domain,omitempty"`

	Provider string         `json:"provider"`
	Zone     cluster.Entity `json:"zone"`
	Offering cluster.Entity `json:"offering"`
	Template cluster.Entity `json:"template,omitzero"`
	Network  cluster.Entity `json:"network,omitzero"`
	KeyPair  string         `json:"keyPair,omitempty"`
	DiskGB   int            `json:"diskGB,omitempty" doc:"root disk of a node; absent: the template decides"`
	Version  string         `json:"version,omitempty"`

	State    machine.State   `json:"state"`
	Since    time.Time       `json:"since,omitzero" doc:"of the state"`
	Desired  cluster.Desired `json:"desired" enum:"Running,Stopped,Destroyed"`
	Size     int             `json:"size" doc:"desired number of workers"`
	Existing *int            `json:"existing,omitempty" doc:"number of existing workers"`
	Control  int             `json:"controlNodes"`
	Cores    int             `json:"cores"`
	MemoryMB int             `json:"memoryMB"`
	Revision int64           `json:"revision"`

	Endpoint        string             `json:"endpoint,omitempty"`
	ConsoleEndpoint string             `json:"consoleEndpoint,omitempty"`
	CIDRs           []string           `json:"cidrs,omitempty"`
	Recovery        *cluster.Recovery  `json:"recovery,omitempty" doc:"absent: the default of the server; [] allows nothing"`
	OnFailure       cluster.OnFailure  `json:"onFailure,omitempty"`
	Autoscale       *cluster.Autoscale `json:"autoscale,omitempty"`

	Run       string            `json:"run,omitempty" doc:"the active run"`
	Operation string            `json:"operation,omitempty" doc:"the open operation"`
	Code      string            `json:"code,omitempty" doc:"of its fault"`
	Reason    string            `json:"reason,omitempty"`
	Step      string            `json:"step,omitempty"`
	Remedy    string            `json:"remedy,omitempty"`
	ReasonAt  time.Time         `json:"reasonAt,omitzero" doc:"when the reason was found"`
	Findings  []cluster.Finding `json:"findings,omitempty" doc:"differences between the desired and the observed state, at the last pass"`
	Waiting   *api.Waiting      `json:"waiting,omitempty" doc:"what its run waits for"`
	Unseen    *api.Unseen       `json:"unseen,omitempty" doc:"its provider cannot be read: the data may be as old as that"`
	NextTry   time.Time         `json:"nextTry,omitzero" doc:"when the recovery policy or the collector tries again"`
	Created   time.Time         `json:"created"`
	Removed   time.Time         `json:"removed,omitzero"`
	GC        bool              `json:"gc" doc:"false: the collector ignores it"`
}

// ClusterOf returns the JSON form of a cluster; account and domain are names.
func ClusterOf(c *cluster.Cluster, account, domain string) Cluster {
	v := Cluster{
		ID: c.UUID, Name: c.Name, Description: c.Description, AccountID: c.Owner.AccountID, DomainID: c.Owner.DomainID, Account: account, Domain: domain,
		Provider: c.Provider, Zone: c.Zone, Offering: c.Offering, Template: c.Template, Network: c.Network, KeyPair: c.KeyPair, DiskGB: c.DiskGB, Version: c.Version,
		State: c.State, Since: c.StateSince, Desired: c.Desired, Size: c.NodeCount, Control: c.ControlCount, Cores: c.Cores, MemoryMB: c.MemoryMB,
		Revision: c.Revision, Endpoint: c.Endpoint, ConsoleEndpoint: c.ConsoleEndpoint, CIDRs: c.CIDRs, OnFailure: c.OnFailure,
		Run: c.RunID, Code: string(c.Reason.Code), Reason: c.Reason.Text, Step: c.Reason.Step, Remedy: c.Reason.RemedyOf(),
		Findings: c.Findings, Created: c.Created, Removed: c.Removed, GC: c.GC,
	}
	if c.Reason.Code != "" {
		v.ReasonAt = c.StateSince
		if c.Reason.Code == cluster.ClusterFaulty.Code && c.ObservedAt.After(v.ReasonAt) {
			v.ReasonAt = c.ObservedAt
		}
	}
	if c.Recovery != nil {
		v.Recovery = &c.Recovery
	}
	if c.Autoscale.Enabled {
		v.Autoscale = &c.Autoscale
	}
	if c.Request != nil {
		v.Operation = c.Request.Job
	}
	switch c.State {
	case cluster.Alert:
		v.NextTry = c.RecoverNext
	case cluster.Expunge:
		v.NextTry = c.GCNext
	}
	return v
}

// With adds what a cluster waits for and whether its provider can be read.
func (c Cluster) With(s api.Explanation) Cluster {
	c.Waiting, c.Unseen = s.Waiting, s.Unseen
	return c
}

// ClusterInList is ClusterOf with the number of workers that exist.
func ClusterInList(c *cluster.Cluster, existing int, account, domain string) Cluster {
	v := ClusterOf(c, account, domain)
	v.Existing = &existing
	return v
}

// ClusterOfRecord is ClusterInList of a record.
func ClusterOfRecord(b *cluster.Record, account, domain string) Cluster {
	existing := 0
	for _, n := range b.Nodes {
		if n.Role == cluster.Worker && n.Removed.IsZero() {
			existing++
		}
	}
	return ClusterInList(&b.Cluster, existing, account, domain)
}

// ClusterNode is a VM of a cluster.
type ClusterNode struct {
	Name        string       `json:"name"`
	ID          string       `json:"id,omitempty" doc:"id at the provider"`
	Role        cluster.Role `json:"role" enum:"control,worker"`
	Ordinal     int          `json:"ordinal"`
	Version     string       `json:"version,omitempty"`
	Address     string       `json:"address,omitempty"`
	Ready       string       `json:"ready" enum:"true,false,unknown"`
	ReadyAt     time.Time    `json:"readyAt,omitzero"`
	HeartbeatAt time.Time    `json:"heartbeatAt,omitzero" doc:"time of its newest heartbeat"`
	NotReady    string       `json:"notReady,omitempty" doc:"why it is not ready"`
}

// ClusterNodes returns the JSON form of a cluster's nodes.
func ClusterNodes(b *cluster.Record) []ClusterNode {
	nodes := []ClusterNode{}
	for _, n := range b.Nodes {
		v := ClusterNode{Name: n.Name, ID: n.VMID, Role: n.Role, Ordinal: n.Ordinal, Version: n.Version, Address: n.Address,
			Ready: "unknown", ReadyAt: n.ReadyAt, HeartbeatAt: n.HeartbeatAt, NotReady: n.NotReady}
		v.Ready, v.NotReady = b.Readiness(&n)
		nodes = append(nodes, v)
	}
	return nodes
}

// ClusterResource is the JSON form of a journal row of a cluster.
type ClusterResource struct {
	Kind      cluster.Kind   `json:"kind"`
	Name      string         `json:"name"`
	ID        string         `json:"id,omitempty" doc:"id at the provider"`
	Key       string         `json:"key"`
	Phase     cluster.Phase  `json:"phase" enum:"intent,accepted,present,closing,gone,never_created,leaked,forgotten"`
	Origin    cluster.Origin `json:"origin" enum:"made,adopted,given"`
	Run       string         `json:"run,omitempty"`
	Step      string         `json:"step,omitempty"`
	Attempts  int            `json:"attempts,omitempty"`
	Code      string         `json:"code,omitempty"`
	Error     string         `json:"error,omitempty"`
	IntentAt  time.Time      `json:"intentAt,omitzero"`
	PresentAt time.Time      `json:"presentAt,omitzero"`
	ClosingAt time.Time      `json:"closingAt,omitzero"`
	GoneAt    time.Time      `json:"goneAt,omitzero"`
}

// ClusterResources returns the JSON form of a cluster's journal.
func ClusterResources(b *cluster.Record) []ClusterResource {
	rows := []ClusterResource{}
	for _, r := range b.Journal {
		rows = append(rows, ClusterResource{Kind: r.Kind, Name: r.Name, ID: r.ProviderID, Key: r.Key, Phase: r.Phase, Origin: r.Origin, Run: r.RunID,
			Step: r.Step, Attempts: r.Attempts, Code: string(r.LastCode), Error: r.LastError, IntentAt: r.IntentAt, PresentAt: r.PresentAt,
			ClosingAt: r.ClosingAt, GoneAt: r.GoneAt})
	}
	return rows
}

// Operation is the JSON form of an operation that a caller requested.
type Operation struct {
	ID      string `json:"id"`
	Cluster string `json:"cluster"`
	Kind    string `json:"kind" enum:"create,start,stop,scale,upgrade,recover,delete,forget"`
	Status  string `json:"status" enum:"open,done,failed"`
	Code    string `json:"code,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Remedy  string `json:"remedy,omitempty"`
	Step    string `json:"step,omitempty"`
	Run     string `json:"run,omitempty"`
	User    string `json:"user,omitempty"`

	Waiting *api.Waiting `json:"waiting,omitempty" doc:"what the run of its cluster waits for; only while the operation is open"`
	Unseen  *api.Unseen  `json:"unseen,omitempty" doc:"the provider cannot be read; only while the operation is open"`

	Created   time.Time `json:"created"`
	Completed time.Time `json:"completed,omitzero"`
}

// OperationOf returns the JSON form of a job.
func OperationOf(j *cluster.Job) Operation {
	return Operation{ID: j.ID, Cluster: j.Cluster, Kind: j.Kind, Status: [...]string{"open", "done", "failed"}[j.Status], Code: string(j.Code), Reason: j.Text,
		Remedy: cluster.Reason{Code: j.Code}.RemedyOf(), Step: j.Step, Run: j.RunID, User: j.User, Created: j.Created, Completed: j.Completed}
}

// With adds what its cluster waits for, if the operation is open.
func (o Operation) With(s api.Explanation) Operation {
	if o.Status == "open" {
		o.Waiting, o.Unseen = s.Waiting, s.Unseen
	}
	return o
}

// ClusterConfig is the client configuration of a cluster, in clear text.
type ClusterConfig struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Config string `json:"configData"`
}

// ClusterConfigOf reveals a configuration. Use it only for the caller who requested it.
func ClusterConfigOf(c *api.Config) ClusterConfig {
	return ClusterConfig{ID: c.ID, Name: c.Name, Config: c.Data.Reveal()}
}

// ClusterEvent is the JSON form of an event of a cluster.
type ClusterEvent struct {
	Seq      int64           `json:"seq"`
	At       time.Time       `json:"at"`
	Cluster  string          `json:"cluster"`
	Type     string          `json:"type" enum:"cluster,drift,leak,audit"`
	Event    string          `json:"event,omitempty" doc:"event of the lifecycle, or the request"`
	From     string          `json:"from,omitempty"`
	State    string          `json:"state,omitempty"`
	Revision int64           `json:"revision,omitempty"`
	Code     string          `json:"code,omitempty"`
	Reason   string          `json:"reason,omitempty"`
	Step     string          `json:"step,omitempty"`
	Run      string          `json:"run,omitempty"`
	Job      string          `json:"operation,omitempty"`
	Actor    string          `json:"actor,omitempty"`
	Data     json.RawMessage `json:"data,omitempty"`
}

// ClusterEvents returns the JSON form of events.
func ClusterEvents(events []cluster.Event) []ClusterEvent {
	out := []ClusterEvent{}
	for _, e := range events {
		out = append(out, ClusterEvent{Seq: e.Seq, At: e.At, Cluster: e.Cluster, Type: e.Type, Event: e.Event, From: e.From, State: e.State, Revision: e.Revision,
			Code: string(e.Reason.Code), Reason: e.Reason.Text, Step: e.Reason.Step, Run: e.RunID, Job: e.Job, Actor: e.Actor, Data: e.Data})
	}
	return out
}

// CatalogEntry is an entry of a provider's catalog.
type CatalogEntry struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Zone     string `json:"zone,omitempty"`
	Version  string `json:"version,omitempty"`
	Cores    int    `json:"cores,omitempty"`
	MemoryMB int    `json:"memoryMB,omitempty"`
	Disabled bool   `json:"disabled,omitempty"`
	Default  bool   `json:"default,omitempty"`
}
