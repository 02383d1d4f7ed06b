package fdb

import (
	"regexp"
	"strconv"

	"github.com/pawl-dev/pawl/fault"
)

// GroupIDInvalid says that a text is no id of a process group.
var GroupIDInvalid = fault.Declare(fault.Kind{
	Code: "FDB_GROUP_ID_INVALID", Class: fault.Invalid,
	Title:  "a text is no id of a process group",
	Remedy: "Write class-number or prefix-class-number, for example storage-17, as status.processGroups shows it.",
	Guide:  "foundationdb.md#if-it-does-not-go-on",
})

// GroupID names a process group: class-number, or prefix-class-number.
type GroupID struct {
	Prefix string `json:"prefix,omitempty"` // empty: none
	Class  Class  `json:"class"`
	Number int    `json:"number"` // at least 1
}

// groupForm splits at the last two hyphens: a class has none.
var groupForm = regexp.MustCompile(`^(?:([A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?)-)?([a-z](?:[a-z_]*[a-z])?)-([1-9][0-9]*)$`)

// ParseGroupID reads the id of a process group. It fails with GroupIDInvalid.
func ParseGroupID(text string) (GroupID, error) {
	found := groupForm.FindStringSubmatch(text)
	if found == nil {
		return GroupID{}, GroupIDInvalid.Errorf("%q is not [prefix-]class-number", text)
	}
	number, err := strconv.ParseInt(found[3], 10, 32)
	if err != nil {
		return GroupID{}, GroupIDInvalid.Errorf("%q: the number is too large", text)
	}
	return GroupID{Prefix: found[1], Class: Class(found[2]), Number: int(number)}, nil
}

// String returns the id as ParseGroupID reads it.
func (g GroupID) String() string {
	id := string(g.Class) + "-" + strconv.Itoa(g.Number)
	if g.Prefix != "" {
		id = g.Prefix + "-" + id
	}
	return id
}

// InstanceLocality is the locality that holds the id of a process group; LocalityPrefix comes before
// the name of a locality in an exclusion. Sources: fdb-kubernetes-operator 2.33.0,
// api/v1beta2/foundationdb_labels.go; foundationdb 7.3.69, fdbrpc/Locality.cpp.
const (
	InstanceLocality = "instance_id"
	LocalityPrefix   = "locality_"
)

// Exclusion returns the target that excludes all servers of the group.
func (g GroupID) Exclusion() string { return LocalityPrefix + InstanceLocality + ":" + g.String() }
