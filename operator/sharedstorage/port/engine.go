package port

import (
	"context"
	"time"
)

// Engine is the database engine inside one instance. id.Instance is set in all calls.
type Engine interface {
	// Status asks the engine. An instance that cannot be asked is an error: it
	// says nothing about the engine.
	Status(ctx context.Context, id Ref) (Status, error)
	// Install puts data where there are none. It goes on in the background;
	// Status.Installed says when it is there. The same key never installs twice.
	Install(ctx context.Context, id Ref, from Source, key string) error
	// Start starts the engine: as writer if the instance holds the grant, else
	// as a follower. DB_START_FAIL.
	Start(ctx context.Context, id Ref) error
	// Stop stops the engine and keeps it stopped. An engine that is stopped is no error.
	Stop(ctx context.Context, id Ref, mode StopMode) error
	// Promote makes a follower the writer under the grant of this epoch, and
	// refuses without it: SWITCH_REFUSED. A writer of this epoch is no error.
	Promote(ctx context.Context, id Ref, epoch int64) error
	// Follow makes the engine a follower of this instance, rewinding it or
	// copying anew if it had gone further.
	Follow(ctx context.Context, id Ref, writer string) error
	// Apply sets parameters, all that are wanted: others go back to their
	// defaults. It says whether a restart is needed for them. PARAMETER_INVALID.
	Apply(ctx context.Context, id Ref, params map[string]string) (restart bool, err error)
}

// Role is what an engine does.
type Role string

// The roles of an engine.
const (
	NoRole   Role = ""        // it does not run
	Primary  Role = "primary" // accepts writes
	Follower Role = "follower"
)

// Status is an engine as it is.
type Status struct {
	Installed bool   `json:"installed"`
	Running   bool   `json:"running"`
	Ready     bool   `json:"ready"` // answers SQL
	Role      Role   `json:"role,omitempty"`
	Version   string `json:"version,omitempty"`

	Position  uint64 `json:"position,omitempty"` // bytes of log: written (primary), replayed (follower), or the end in the control data (stopped cleanly)
	Received  uint64 `json:"received,omitempty"` // bytes of log a follower has durably
	Lag       int64  `json:"lag"`                // bytes a follower is behind its source, -1: unknown
	Streaming bool   `json:"streaming,omitempty"`
	Upstream  string `json:"upstream,omitempty"` // instance a follower follows
	Timeline  int64  `json:"timeline,omitempty"`
	Epoch     int64  `json:"epoch,omitempty"` // of the grant it writes under
	Wrote     int64  `json:"wrote,omitempty"` // epoch of the grant it wrote under last, running or not
	Clean     bool   `json:"clean,omitempty"` // stopped with everything flushed

	Parameters string    `json:"parameters,omitempty"` // hash of what is set (see Hash)
	Restart    bool      `json:"restart,omitempty"`    // a parameter waits for a restart
	Started    time.Time `json:"started,omitzero"`
	Code       string    `json:"code,omitempty"` // fault of the last start or install
	Message    string    `json:"message,omitempty"`
}

// Source is where the data of a new instance come from.
type Source struct {
	From string `json:"from,omitempty"` // an instance to copy; empty: a new, empty database, or the clone on the volume
}

// StopMode is how an engine is stopped.
type StopMode string

// The modes of stopping.
const (
	Fast      StopMode = "fast"      // sessions end, everything is flushed
	Immediate StopMode = "immediate" // at once; the next start recovers
)
