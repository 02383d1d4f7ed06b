package backend

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/bulk"
	"github.com/pawl-dev/pawl/lock"
	"github.com/pawl-dev/pawl/machine/driver"
	"github.com/pawl-dev/pawl/notification"
	"github.com/pawl-dev/pawl/schedule"
	"github.com/pawl-dev/pawl/workflow/flowfile"
)

// ScheduleKind is the kind of schedules, which each server serves.
var ScheduleKind = scheduleKind()

func scheduleKind() driver.ServedKind {
	spec, _ := schedule.Schema{}.MarshalJSON() // a constant
	return driver.ServedKind{Kind: schedule.Kind, Spec: spec, Schema: schedule.Schema{}}
}

// NotificationKind is the kind of notifications, which each server serves.
var NotificationKind = notificationKind()

func notificationKind() driver.ServedKind {
	spec, _ := notification.Schema{}.MarshalJSON() // a constant
	return driver.ServedKind{Kind: notification.Kind, Spec: spec, Schema: notification.Schema{}}
}

// BulkKind is the kind of bulks, which each server serves.
var BulkKind = bulkKind()

func bulkKind() driver.ServedKind {
	spec, _ := bulk.Schema{}.MarshalJSON() // a constant
	return driver.ServedKind{Kind: bulk.Kind, Spec: spec, Schema: bulk.Schema{}}
}

// OwnKinds are the kinds that each server serves, whatever is loaded into it.
func OwnKinds() []driver.ServedKind {
	return []driver.ServedKind{ScheduleKind, NotificationKind, BulkKind}
}

// IsOwn reports one of OwnKinds.
func IsOwn(kind string) bool {
	return slices.ContainsFunc(OwnKinds(), func(k driver.ServedKind) bool { return k.Kind == kind })
}

// kindsName is where a server keeps the kinds that it serves, beside the locks:
// commands that open its store read there which kinds are served.
const kindsName = lock.ReservedPrefix + "kinds"

// KeepKinds writes down what this server serves. In a database that several
// servers share, the kinds of others stay.
func (s Store) KeepKinds(ctx context.Context, kinds []driver.ServedKind, shared bool) error {
	return s.Locks().Transact(ctx, kindsName, func(_ time.Time, old []byte) ([]byte, bool) {
		all := kinds
		var before []driver.ServedKind
		if shared && json.Unmarshal(old, &before) == nil {
			for _, k := range before {
				if _, err := driver.Serves(kinds, k.Kind); err != nil {
					all = append(all, k)
				}
			}
		}
		next, err := json.Marshal(all)
		return next, err == nil && !bytes.Equal(next, old)
	})
}

// Kinds reads what servers of this store serve.
func (s Store) Kinds(ctx context.Context) ([]driver.ServedKind, error) {
	raw, err := s.Locks().Read(ctx, kindsName)
	if err != nil || raw == nil {
		return nil, err
	}
	var kinds []driver.ServedKind
	if err := json.Unmarshal(raw, &kinds); err != nil {
		return nil, nil //nolint:nilerr // another version of pawl has written it
	}
	return compiled(kinds), nil
}

// compiled makes schemas of those that can be read.
func compiled(kinds []driver.ServedKind) []driver.ServedKind {
	for i, k := range kinds {
		switch {
		case k.Kind == schedule.Kind: // its schema does not say whether a calendar makes sense
			kinds[i].Schema = schedule.Schema{}
		case k.Kind == notification.Kind: // nor this one whether a template makes JSON
			kinds[i].Schema = notification.Schema{}
		case k.Kind == bulk.Kind: // nor this one which arguments a verb takes
			kinds[i].Schema = bulk.Schema{}
		case len(k.Spec) > 0:
			if schema, err := flowfile.NewSchema(k.Spec); err == nil {
				kinds[i].Schema = schema
			}
		}
	}
	return kinds
}

// Served implements Definitions: those of the files that are loaded, and of the store's servers.
func (l *Local) Served(ctx context.Context) ([]driver.ServedKind, error) {
	kinds, err := driver.KindsOf(l.library.Machines)
	if err != nil {
		return nil, err
	}
	kinds = append(kinds, l.options.Kinds...)
	store, _ := l.now()
	kept, err := store.Kinds(ctx)
	for _, k := range kept {
		if _, err := driver.Serves(kinds, k.Kind); err != nil {
			kinds = append(kinds, k)
		}
	}
	return kinds, err
}

// Served implements Definitions. The API server knows them, and checks by the schemas of their CRDs.
func (k *Kube) Served(context.Context) ([]driver.ServedKind, error) { return nil, nil }
