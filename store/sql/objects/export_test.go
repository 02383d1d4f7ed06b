package objects

import (
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/store/sql/db"
)

// Names for the tests of this package.
const (
	TrimInterval = trimEvery
	PollInterval = safetyPoll
)

// Limited returns objects whose feed keeps another number of changes.
func Limited(s control.Objects, limit int64) control.Objects {
	o := s.(Store)
	o.feedLimit = limit
	return o
}

// BackendOf returns the database of objects.
func BackendOf(s control.Objects) db.Backend { return s.(Store).m }

// CreateChange returns the change that creates an object.
func CreateChange(s control.Objects, o *control.Object) (db.Change, error) {
	var floor int64
	return s.(Store).store(o, control.Write, 0, &floor)
}

// TrimTo returns the change that removes all changes up to a number.
func TrimTo(floor int64) db.Change { return trim(floor) }
