package port

import (
	"context"

	"github.com/pawl-dev/pawl/fault"
)

// ReplicationAdmin is an optional interface of Engine: publications and subscriptions of the writer.
type ReplicationAdmin interface {
	DatabaseAdmin
	// Replication returns the publications of the named databases and all subscriptions of the engine. Of
	// the named subscriptions it asks the servers that publish, for at most two seconds.
	Replication(ctx context.Context, id Ref, databases, subscriptions []string) (Replication, error)
}

// Replication is what an engine has of logical replication.
type Replication struct {
	Publications  []Publication  `json:"publications"`
	Subscriptions []Subscription `json:"subscriptions"`
	Missing       []string       `json:"missing,omitempty"` // databases that were asked for and are not there
}

// Publication is a publication of a database.
type Publication struct {
	Name       string   `json:"name"`
	Database   string   `json:"database"`
	AllTables  bool     `json:"allTables,omitempty"`
	Tables     []string `json:"tables,omitempty"` // as schema.table
	Schemas    []string `json:"schemas,omitempty"`
	Operations []string `json:"operations,omitempty"` // of insert, update, delete, truncate
}

// Subscription is a subscription of a database.
type Subscription struct {
	Name         string     `json:"name"`
	Database     string     `json:"database"`
	Connection   string     `json:"connection"` // SHA-256 of its connection string, which has a password
	Publications []string   `json:"publications"`
	Enabled      bool       `json:"enabled,omitempty"`
	Confirms     bool       `json:"confirms,omitempty"` // its commits wait for a reader, as others do
	Running      bool       `json:"running,omitempty"`  // a process receives
	Copying      int        `json:"copying,omitempty"`  // tables whose rows are not copied yet
	Errors       int64      `json:"errors,omitempty"`   // since the engine has started
	Publisher    *Publisher `json:"publisher,omitempty"`
}

// Publisher is what the server that publishes says about a subscription.
type Publisher struct {
	Unreachable string   `json:"unreachable,omitempty"` // why it said nothing
	Slot        bool     `json:"slot,omitempty"`        // it has the slot, with all the log that is needed
	Lag         int64    `json:"lag,omitempty"`         // bytes of log that are not confirmed
	Missing     []string `json:"missing,omitempty"`     // publications that it does not have
	New         int      `json:"new,omitempty"`         // published tables that are not subscribed
}

// SlotLost reports whether the server that publishes has answered, and has no slot any more.
func (s Subscription) SlotLost() bool {
	return s.Publisher != nil && s.Publisher.Unreachable == "" && !s.Publisher.Slot
}

func declareReplication(code fault.Code, title, remedy string) *fault.Kind {
	return fault.Declare(fault.Kind{Code: code, Class: fault.Blocked, Title: title, Remedy: remedy, Guide: "shared-storage.md#logical-replication"})
}

// The faults of publications and subscriptions. They stop nothing else of a cluster.
var (
	PublicationFailed = declareReplication("PUBLICATION_FAILED", "a publication is not as the spec wants it",
		"The message is that of PostgreSQL. Make the database or the table that it names, or change spec.publications; it is tried again within five minutes, and at once when the spec changes.")
	SubscriptionFailed = declareReplication("SUBSCRIPTION_FAILED", "a subscription is not as the spec wants it, or does not go on",
		"The message, or the log of the writer (pawl pg logs), says why: a table that is missing, a row that is there already, a publication that is gone. Mend that on the side that it names, or change spec.subscriptions; PostgreSQL tries again by itself.")
	PublisherUnreachable = declareReplication("PUBLISHER_UNREACHABLE", "the server that a subscription comes from cannot be asked",
		"See whether spec.subscriptions names its address, user and password, and whether it runs. It keeps the changes meanwhile, as far as its max_slot_wal_keep_size lets it.")
	SubscriptionSlotLost = declareReplication("SUBSCRIPTION_SLOT_LOST", "the server that a subscription comes from has lost its slot",
		"A failover there, or too much log, has lost it, and with it the changes since. Drop the subscription (ensure: absent), truncate its tables, and declare it anew with copyData.")
)

// RoundLag rounds a lag in bytes down to MiB, so that small changes do not write a status.
func RoundLag(bytes int64) int64 { return bytes >> 20 << 20 }
