package fdbview

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Explanation says why a group is where it is.
type Explanation struct {
	Cluster     string    `json:"cluster"`
	Class       string    `json:"class"`
	Zone        string    `json:"zone,omitempty"`
	Group       Group     `json:"group"`
	Pod         string    `json:"pod,omitempty"`
	Node        string    `json:"node,omitempty"`
	Phase       string    `json:"podPhase,omitempty"` // empty: there is no pod, or it was not read
	Servers     []Server  `json:"servers"`
	Coordinator bool      `json:"coordinator"`
	Exclusion   Exclusion `json:"exclusion,omitzero"`
	Gates       []Gate    `json:"gates"`
	ReplacedAt  time.Time `json:"replacedAt,omitzero"` // by itself, at the earliest; zero: it does not fail, or waits for a person
	Silence     string    `json:"silence,omitempty"`   // why Servers and Gates know nothing of the database; empty: it was read
}

// Server is a process of the group that reports.
type Server struct {
	Address  string   `json:"address"`
	Version  string   `json:"version,omitempty"`
	Excluded bool     `json:"excluded"`
	Roles    []string `json:"roles,omitempty"`
	Bytes    int64    `json:"bytes"`
}

// Gate is a gate that what comes next for a group passes through.
type Gate struct {
	Name    string `json:"name"`
	For     string `json:"for"`
	Open    bool   `json:"open"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// Text is the explanation for people.
func (v Explanation) Text(now time.Time) string {
	var b strings.Builder
	say := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-13s%s\n", name, fmt.Sprintf(format, args...))
	}
	fmt.Fprintf(&b, "group %s of cluster %s\n", v.Group.ID, v.Cluster)
	say("state", "%s", v.Group.Why(now))
	say("class", "%s", v.Class)
	say("zone", "%s", cmp.Or(v.Zone, "not known yet"))
	pod := cmp.Or(v.Pod, None)
	if v.Phase != "" {
		pod += "  " + v.Phase + " on " + cmp.Or(v.Node, "no node")
	}
	say("pod", "%s", pod)
	say("addresses", "%s", cmp.Or(strings.Join(v.Group.Addresses, " "), None))
	say("coordinator", "%s", map[bool]string{true: "yes", false: "no"}[v.Coordinator])
	for _, s := range v.Servers {
		text := fmt.Sprintf("%s  %s  roles: %s  %s", s.Address, s.Version, cmp.Or(strings.Join(s.Roles, " "), "none"), Bytes(s.Bytes))
		if s.Excluded {
			text += "  excluded"
		}
		say("server", "%s", text)
	}
	if len(v.Servers) == 0 {
		say("server", "%s", cmp.Or(v.Silence, "none reports"))
	}
	if v.Exclusion.State != "" {
		say("exclusion", "%s", Because(v.Exclusion.State, v.Exclusion.Note))
	}
	switch {
	case v.ReplacedAt.IsZero():
	case v.ReplacedAt.After(now):
		say("replaced", "by itself at %s at the earliest, unless it comes back", v.ReplacedAt.UTC().Format(time.RFC3339))
	default:
		say("replaced", "by itself, once the database is available and no other group is replaced")
	}
	for _, g := range v.Gates {
		text := "open"
		if !g.Open {
			text = "closed  " + Because(g.Reason, g.Message)
		}
		say("gate", "%s, %s: %s", g.Name, g.For, text)
	}
	for _, entry := range v.Group.Plan {
		say("next", "%s", entry)
	}
	return b.String()
}
