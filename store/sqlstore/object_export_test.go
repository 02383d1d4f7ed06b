package sqlstore

import "github.com/pawl-dev/pawl/control"

// Names for the tests of this package.
const (
	TrimInterval = trimEvery
	PollInterval = safetyPoll
)

// Limited returns objects whose feed keeps another number of changes.
func Limited(s control.Objects, limit int64) control.Objects {
	o := s.(objects)
	o.feedLimit = limit
	return o
}

// BackendOf returns the database of objects.
func BackendOf(s control.Objects) backend { return s.(objects).m }

// CreateChange returns the change that creates an object.
func CreateChange(s control.Objects, o *control.Object) (change, error) {
	var floor int64
	return s.(objects).store(o, control.Write, 0, &floor)
}

// TrimTo returns the change that removes all changes up to a number.
func TrimTo(floor int64) change { return trim(floor) }
