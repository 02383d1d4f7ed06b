package foundationdb

import (
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// Fails reports whether a group carries a condition for which it will be replaced if it lasts.
func Fails(g *v1beta2.ProcessGroupStatus) bool {
	return slices.ContainsFunc(g.ProcessGroupConditions, func(c v1beta2.ProcessGroupCondition) bool { return failures[c.Type] })
}

// DataHall returns the data hall of the servers of a class in a pod with these variables. Empty: none, or not
// known yet.
func DataHall(c *v1beta2.FoundationDBCluster, class fdb.Class, variables map[string]string) string {
	for _, p := range settingsOf(c.Spec, class).CustomParameters {
		name, value, _ := strings.Cut(string(p), "=")
		if strings.ReplaceAll(strings.TrimSpace(name), "-", "_") != "locality_"+fdb.DataHallLocality {
			continue
		}
		value = strings.TrimSpace(value)
		if variable.MatchString(value) {
			return variables[value[1:]]
		}
		return value
	}
	return c.Spec.DataHall
}

// Expanded returns a file of the split image with the variables of a pod in it: the longest names first, so that
// one name may begin another.
func Expanded(text string, variables map[string]string) string {
	names := make([]string, 0, len(variables))
	for name := range variables {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	for _, name := range names {
		text = strings.ReplaceAll(text, "$"+name, variables[name])
	}
	return text
}
