package rollout

import (
	"slices"
	"strconv"
	"strings"
)

// RevisionName is the name of the n-th revision of an Application, counted from 1.
func RevisionName(application string, n int) string { return application + "-v" + strconv.Itoa(n) }

// Revisions are the names of the pair to roll out when the n-th revision is the newest: the previous
// one, and the newest. The first has no source, which is a scale.
func Revisions(application string, latest int) (source, target string) {
	if latest > 1 {
		source = RevisionName(application, latest-1)
	}
	return source, RevisionName(application, latest)
}

// Component is the component that a rollout moves: the named one, or the only one that target and
// source have in common. A nil source is a scale: the target's components count alone. The fault is
// COMPONENT_AMBIGUOUS.
func Component(named string, target, source []string) (string, error) {
	common := slices.Clone(target)
	if source != nil {
		common = slices.DeleteFunc(common, func(c string) bool { return !slices.Contains(source, c) })
	}
	switch {
	case named != "" && slices.Contains(common, named):
		return named, nil
	case named != "":
		return "", ComponentAmbiguous.Errorf("component %q is not in both revisions: they have %s in common", named, list(common))
	case len(common) == 1:
		return common[0], nil
	default:
		return "", ComponentAmbiguous.Errorf("name one component: the revisions have %s in common", list(common))
	}
}

func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
