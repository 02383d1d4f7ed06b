package cluster

import (
	"strconv"
	"strings"
)

// maxHostName is the greatest length of a host name label.
const maxHostName = 63

// CleanName turns the name of a cluster into a valid host name label: lower-case
// letters, digits and single hyphens, beginning with a letter. Empty if no
// character of the name can be used.
func CleanName(name string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	clean := strings.Trim(b.String(), "-")
	if clean != "" && clean[0] <= '9' {
		clean = "c" + clean // providers refuse names that begin with a digit
	}
	if len(clean) > maxHostName {
		clean = strings.TrimRight(clean[:maxHostName], "-")
	}
	return clean
}

// NodeName is the name of the VM of a node: <cluster name, cut>-<6 of
// id>-<role><ordinal>.
func NodeName(c *Cluster, role Role, ordinal int) string {
	return ResourceName(c, string(role)+strconv.Itoa(ordinal))
}

// ResourceName is the name of another resource, such as "network" or "fw-6443":
// <cluster name, cut>-<6 of id>-<suffix>, at most 63 characters. The suffix
// must be a legal part of a host name of at most 50 characters.
func ResourceName(c *Cluster, suffix string) string {
	tail := "-" + shortID(c) + "-" + suffix
	name := CleanName(c.Name)
	if name == "" {
		name = "c"
	}
	name = strings.TrimRight(name[:min(len(name), max(1, maxHostName-len(tail)))], "-")
	return name + tail
}

// namedByUs reports a name that NodeName or ResourceName could have returned.
func namedByUs(c *Cluster, name string) bool {
	suffix, ok := suffixOf(c, name)
	return ok && suffix != "" && ResourceName(c, suffix) == name
}

// RoleOf returns the role and the ordinal in a name from NodeName.
func RoleOf(c *Cluster, name string) (role Role, ordinal int, ok bool) {
	suffix, ok := suffixOf(c, name)
	if !ok {
		return "", 0, false
	}
	for _, role := range []Role{Control, Worker} {
		digits, found := strings.CutPrefix(suffix, string(role))
		n, err := strconv.Atoi(digits)
		if found && err == nil && n > 0 && NodeName(c, role, n) == name {
			return role, n, true
		}
	}
	return "", 0, false
}

// NextOrdinal returns the highest ordinal that a node of the role has or ever had,
// plus one. The journal knows the removed nodes.
func NextOrdinal(b *Record, role Role) int {
	last := 0
	for _, n := range b.Nodes {
		if n.Role == role {
			last = max(last, n.Ordinal)
		}
	}
	for _, row := range b.Journal {
		if row.Kind != VM {
			continue
		}
		if of, n, ok := RoleOf(&b.Cluster, row.Name); ok && of == role {
			last = max(last, n)
		}
	}
	return last + 1
}

func suffixOf(c *Cluster, name string) (string, bool) {
	mark := "-" + shortID(c) + "-"
	at := strings.LastIndex(name, mark)
	if at < 0 {
		return "", false
	}
	return name[at+len(mark):], true
}

// shortID returns the 6 characters of the id that names contain.
func shortID(c *Cluster) string {
	id := strings.ReplaceAll(strings.ToLower(c.UUID), "-", "")
	return id[:min(6, len(id))]
}
