package declared

import (
	"slices"
	"strings"
)

// quote quotes an identifier of SQL.
func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// list quotes identifiers, with commas between them.
func list(names []string) string {
	quoted := make([]string, len(names))
	for n, name := range names {
		quoted[n] = quote(name)
	}
	return strings.Join(quoted, ", ")
}

// literal quotes a text whatever standard_conforming_strings is in its database.
func literal(text string) string {
	text = strings.ReplaceAll(text, "'", "''")
	if strings.Contains(text, `\`) {
		return " E'" + strings.ReplaceAll(text, `\`, `\\`) + "'"
	}
	return "'" + text + "'"
}

// same reports whether both have the same names, in any order.
func same(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
