package lock

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"
)

// Backend is where locks are stored.
type Backend interface {
	// Transact reads the value of a name (nil: none), calls change, and stores its
	// result if write is true (nil: remove), all in one transaction: no other
	// change of that name comes in between. now is the clock of the backend, the
	// same for all that share it. change has no side effects and may be called
	// again after a conflict. After an error the value may or may not be stored.
	Transact(ctx context.Context, name string, change func(now time.Time, old []byte) (next []byte, write bool)) error
	// Read returns the value of a name, nil if there is none.
	Read(ctx context.Context, name string) ([]byte, error)
}

// ReservedPrefix begins the names of values that are kept beside the locks and are none.
const ReservedPrefix = "pawl/"

// Lister is a Backend that lists what it stores.
type Lister interface {
	// List returns at most limit values whose names are behind after, in the order of their names, and the clock of the
	// backend.
	List(ctx context.Context, after string, limit int) (values []Value, now time.Time, err error)
}

// Value is what a backend stores under a name.
type Value struct {
	Name string
	Data []byte
}

// State is the value that a backend holds under the name of a lock, as JSON.
type State struct {
	Record *Record  `json:"record,omitempty"`
	Deny   []string `json:"deny,omitempty"`
}

// ParseState parses a stored value; an empty value is a free lock. LOCK_UNREADABLE
// for anything that is not a State.
func ParseState(name string, data []byte) (State, error) {
	var s State
	if len(data) == 0 {
		return s, nil
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	err := dec.Decode(&s)
	if err == nil {
		if _, more := dec.Token(); more != io.EOF {
			err = errors.New("something follows the value")
		}
	}
	if err == nil && s.Record != nil && (s.Record.Owner == "" || s.Record.Start.IsZero() || s.Record.End.IsZero()) {
		err = errors.New("the record has no owner, start or end")
	}
	if err != nil {
		return State{}, Unreadable.Errorf("lock %s: %w", name, err).With("lock", name)
	}
	return s, nil
}

func (s State) encode() []byte {
	if s.Record == nil && len(s.Deny) == 0 {
		return nil
	}
	data, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings and times of four-digit years always encode
	}
	return data
}

// Locker takes and releases locks in the name of one owner.
type Locker struct {
	Backend  Backend
	Owner    string        // unique among all that share the backend
	Duration time.Duration // 0: DefaultDuration
}

// Take takes the lock, or extends it. The error is that of the backend, or
// LOCK_WITHOUT_OWNER; a refusal is no error but part of the decision. After an
// error call Take again: if the first try was stored, the second extends it.
func (l Locker) Take(ctx context.Context, name string) (Decision, error) {
	return l.decide(ctx, name, func(now time.Time, stored Stored, denied Denied) Decision {
		return Decide(now, stored, l.Owner, denied, l.Duration)
	})
}

// Release releases the lock if it is held; otherwise it changes nothing.
func (l Locker) Release(ctx context.Context, name string) (Decision, error) {
	return l.decide(ctx, name, func(now time.Time, stored Stored, _ Denied) Decision {
		return Release(now, stored, l.Owner)
	})
}

// Deny merges entries into the deny list of a lock and returns the new list. An
// unreadable lock is LOCK_UNREADABLE and stays as it is.
func (l Locker) Deny(ctx context.Context, name string, entries ...Entry) ([]string, error) {
	var list []string
	var unreadable error
	err := l.Backend.Transact(ctx, name, func(_ time.Time, old []byte) ([]byte, bool) {
		state, err := ParseState(name, old)
		if unreadable = err; err != nil {
			return nil, false
		}
		list = Merge(state.Deny, entries)
		state.Deny = list
		next := state.encode()
		return next, !bytes.Equal(next, old)
	})
	if err != nil {
		return nil, err
	}
	return list, unreadable
}

// Read returns the holder and the deny list of a lock.
func (l Locker) Read(ctx context.Context, name string) (State, error) {
	data, err := l.Backend.Read(ctx, name)
	if err != nil {
		return State{}, err
	}
	return ParseState(name, data)
}

func (l Locker) decide(ctx context.Context, name string, decideOn func(time.Time, Stored, Denied) Decision) (Decision, error) {
	if name == "" || l.Owner == "" {
		return Decision{}, OwnerMissing.Errorf("lock %q, owner %q: both must be named", name, l.Owner)
	}
	var v Decision
	err := l.Backend.Transact(ctx, name, func(now time.Time, old []byte) ([]byte, bool) {
		state, err := ParseState(name, old)
		v = decideOn(now, Stored{Record: state.Record, Err: err}, DenyList(state.Deny))
		if !v.Write {
			return nil, false
		}
		return State{Record: v.Record, Deny: state.Deny}.encode(), true
	})
	if err != nil {
		return Decision{}, err
	}
	return v, nil
}
