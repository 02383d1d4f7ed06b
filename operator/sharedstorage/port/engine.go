package port

import (
	"context"
	"time"
)

// Engine controls the database engine inside one instance. id.Instance is set in all calls.
type Engine interface {
	// Status returns the status of the engine. An error means that the instance did not answer; it
	// says nothing about the engine.
	Status(ctx context.Context, id Ref) (Status, error)
	// Install creates the data of an instance without data. It continues in the background;
	// Status.Installed says when it is done. The same key never installs twice.
	Install(ctx context.Context, id Ref, from Source, key string) error
	// Start starts the engine: as writer if the instance holds the grant, otherwise as a follower.
	// Its fault is DB_START_FAIL.
	Start(ctx context.Context, id Ref) error
	// Stop stops the engine and keeps it stopped. A stopped engine is not an error.
	Stop(ctx context.Context, id Ref, mode StopMode) error
	// Promote makes a follower the writer under the grant of this epoch. Without that grant it
	// returns SWITCH_REFUSED. If the engine is already the writer of this epoch, there is no
	// error.
	Promote(ctx context.Context, id Ref, epoch int64) error
	// Follow makes the engine a follower of this instance. It rewinds or copies the data if the
	// engine has log that the instance does not have.
	Follow(ctx context.Context, id Ref, writer string) error
	// Apply sets exactly these parameters; all others go back to their defaults. restart says
	// whether they need one. Its fault is PARAMETER_INVALID.
	Apply(ctx context.Context, id Ref, params map[string]string) (restart bool, err error)
}

// Role is the role of a running engine.
type Role string

// The roles of an engine.
const (
	NoRole   Role = ""        // it does not run
	Primary  Role = "primary" // accepts writes
	Follower Role = "follower"
)

// Status is the observed state of an engine.
type Status struct {
	Installed bool   `json:"installed"`
	Running   bool   `json:"running"`
	Ready     bool   `json:"ready"` // answers SQL
	Role      Role   `json:"role,omitempty"`
	Version   string `json:"version,omitempty"`

	Position  uint64 `json:"position,omitempty"` // bytes of log: written (primary), replayed (follower), or the end in the control data (stopped cleanly)
	Received  uint64 `json:"received,omitempty"` // bytes of log that a follower has on disk
	Lag       int64  `json:"lag"`                // bytes that a follower is behind its source; -1: unknown
	Streaming bool   `json:"streaming,omitempty"`
	Upstream  string `json:"upstream,omitempty"` // instance that a follower follows
	Timeline  int64  `json:"timeline,omitempty"`
	Epoch     int64  `json:"epoch,omitempty"` // epoch of the grant under which it writes
	Wrote     int64  `json:"wrote,omitempty"` // epoch of the grant under which it wrote last, whether it runs or not
	Clean     bool   `json:"clean,omitempty"` // stopped after everything was flushed

	Followers []string `json:"followers"`         // of a primary: the instances that it streams to, as it says itself; nil: unknown
	Stalled   bool     `json:"stalled,omitempty"` // of a primary: it answers no commit, because it streams to none of those that must have one

	Parameters string        `json:"parameters,omitempty"` // hash of the parameters that are set (see Hash)
	Restart    bool          `json:"restart,omitempty"`    // a parameter needs a restart
	Started    time.Time     `json:"started,omitzero"`
	Archive    ArchiveStatus `json:"archive,omitzero"`
	TLS        bool          `json:"tls,omitempty"`      // its agent takes calls over TLS
	Identity   string        `json:"identity,omitempty"` // in the certificate of its agent; empty: it has none there
	Code       string        `json:"code,omitempty"`     // fault of the last start or install
	Message    string        `json:"message,omitempty"`
}

// Source is where the data of a new instance come from.
type Source struct {
	From    string   `json:"from,omitempty"`    // the instance to copy; empty: a new, empty database, or the clone on the volume
	Restore *Restore `json:"restore,omitempty"` // the backup to begin with, instead
}

// StopMode is the way in which an engine is stopped.
type StopMode string

// The stop modes.
const (
	Fast      StopMode = "fast"      // end sessions and flush everything
	Immediate StopMode = "immediate" // stop at once; the next start does crash recovery
)
