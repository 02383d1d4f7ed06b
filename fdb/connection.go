package fdb

import (
	"regexp"
	"strings"

	"github.com/pawl-dev/pawl/fault"
)

// ConnectionInvalid says that a text is no connection string.
var ConnectionInvalid = fault.Declare(fault.Kind{
	Code: "FDB_CONNECTION_INVALID", Class: fault.Invalid,
	Title:  "a text is no connection string",
	Remedy: "Write description:id@coordinator,coordinator, each coordinator as ip:port, [ipv6]:port or name:port, with :tls behind it if it listens with TLS.",
	Guide:  "foundationdb.md#repair",
})

// Connection is the content of a cluster file: description:id@coordinator,coordinator.
type Connection struct {
	Description  string    `json:"description"` // letters, digits and underscores
	ID           string    `json:"id"`          // letters and digits; new coordinators have a new one
	Coordinators []Address `json:"coordinators"`
}

var (
	descriptionForm = regexp.MustCompile(`^[A-Za-z0-9_]+$`)
	connectionID    = regexp.MustCompile(`^[A-Za-z0-9]+$`)
)

// ParseConnection reads a connection string or a cluster file, in which empty lines and what follows
// a # do not count. It fails with ConnectionInvalid.
func ParseConnection(text string) (Connection, error) {
	line, err := connectionLine(text)
	if err != nil {
		return Connection{}, err
	}
	key, list, found := strings.Cut(line, "@")
	if !found || strings.Contains(list, "@") {
		return Connection{}, ConnectionInvalid.Errorf("%q does not have exactly one @", line)
	}
	var c Connection
	c.Description, c.ID, found = strings.Cut(key, ":")
	switch {
	case !found:
		return Connection{}, ConnectionInvalid.Errorf("%q has no : before the @", line)
	case !descriptionForm.MatchString(c.Description):
		return Connection{}, ConnectionInvalid.Errorf("the description %q is not made of letters, digits and underscores", c.Description)
	case !connectionID.MatchString(c.ID):
		return Connection{}, ConnectionInvalid.Errorf("the id %q is not made of letters and digits", c.ID)
	}
	seen := map[Address]bool{}
	for text := range strings.SplitSeq(list, ",") {
		address, err := ParseAddress(text)
		switch {
		case err != nil:
			return Connection{}, ConnectionInvalid.Errorf("a coordinator cannot be read: %s", fault.Message(err))
		case address.Port == 0 || address.FromHostname:
			return Connection{}, ConnectionInvalid.Errorf("the coordinator %q is not host:port or host:port:tls", text)
		case seen[address]: // refused in foundationdb 7.3.69, fdbclient/MonitorLeader.actor.cpp
			return Connection{}, ConnectionInvalid.Errorf("the coordinator %q is there twice", text)
		}
		seen[address] = true
		c.Coordinators = append(c.Coordinators, address)
	}
	return c, nil
}

// connectionLine returns the one line of a cluster file that holds the connection string. Source:
// foundationdb 7.3.69, fdbclient/MonitorLeader.actor.cpp, trim; we refuse white space within it.
func connectionLine(text string) (string, error) {
	var line string
	for candidate := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == '\r' }) {
		candidate, _, _ = strings.Cut(candidate, "#")
		candidate = strings.Trim(candidate, " \t")
		switch {
		case candidate == "":
		case line != "":
			return "", ConnectionInvalid.Errorf("%q follows the connection string", candidate)
		default:
			line = candidate
		}
	}
	if line == "" {
		return "", ConnectionInvalid.Errorf("the text is empty")
	}
	return line, nil
}

// String returns the connection string.
func (c Connection) String() string {
	var text strings.Builder
	text.WriteString(c.Description + ":" + c.ID + "@")
	for i, coordinator := range c.Coordinators {
		if i > 0 {
			text.WriteByte(',')
		}
		text.WriteString(coordinator.String())
	}
	return text.String()
}

// Describe returns the description for the cluster file of a new cluster: its name, with an
// underscore for each character that a description cannot have.
func Describe(clusterName string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x80 && descriptionForm.MatchString(string(r)) {
			return r
		}
		return '_'
	}, clusterName)
}
