package view

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"
)

// section is a table in a description.
type section struct {
	name  string
	table Table
}

// instancesOf returns tables for the conditions, instances and requests of an object
// whose status lists instances by id. rest is the remaining status; for other objects
// it is the whole status.
func instancesOf(status json.RawMessage, now time.Time) (sections []section, rest json.RawMessage) {
	var parts map[string]json.RawMessage
	var instances map[string]struct {
		Role, Node, Address, Class, Version, Health, Message string

		Port     int
		LagBytes *int64
	}
	if json.Unmarshal(status, &parts) != nil || json.Unmarshal(parts["instances"], &instances) != nil || len(instances) == 0 {
		return nil, status
	}
	var conditions []struct {
		Type, Status, Reason, Message string

		LastTransitionTime time.Time
	}
	var requests []struct {
		ID, Kind, Args, State, Code, Message string

		AcceptedAt time.Time
	}
	if json.Unmarshal(parts["conditions"], &conditions) == nil {
		t := Table{Head: []string{"TYPE", "STATUS", "REASON", "SINCE", "MESSAGE"}}
		for _, c := range conditions {
			t.Rows = append(t.Rows, []string{c.Type, c.Status, cmp.Or(c.Reason, none), Age(now.Sub(c.LastTransitionTime)), oneLine(c.Message)})
		}
		sections = append(sections, section{"Conditions", t})
	}
	t := Table{Head: []string{"ID", "ROLE", "HEALTH", "NODE", "ADDRESS", "CLASS", "VERSION", "LAG", "MESSAGE"}}
	for _, id := range slices.SortedFunc(maps.Keys(instances), byNumber) {
		i, lag, address := instances[id], none, none
		if i.LagBytes != nil {
			lag = strconv.FormatInt(*i.LagBytes, 10)
		}
		if i.Address != "" {
			address = i.Address + ":" + strconv.Itoa(i.Port)
		}
		t.Rows = append(t.Rows, []string{id, cmp.Or(i.Role, none), cmp.Or(i.Health, none), cmp.Or(i.Node, none), address, cmp.Or(i.Class, none), cmp.Or(i.Version, none), lag, oneLine(i.Message)})
	}
	sections = append(sections, section{"Instances", t})
	if json.Unmarshal(parts["requests"], &requests) == nil && len(requests) > 0 {
		t := Table{Head: []string{"REQUEST", "FOR", "ID", "STATE", "AGE", "MESSAGE"}}
		for _, r := range requests {
			t.Rows = append(t.Rows, []string{r.Kind, cmp.Or(r.Args, none), r.ID, r.State, Age(now.Sub(r.AcceptedAt)), join(" ", r.Code, oneLine(r.Message))})
		}
		sections = append(sections, section{"Requests", t})
	}
	for _, reported := range []string{"conditions", "instances", "requests", "position"} {
		delete(parts, reported)
	}
	rest, err := json.Marshal(parts)
	if err != nil {
		return sections, status
	}
	return sections, rest
}

// byNumber orders ids: numbers by value, then all others.
func byNumber(a, b string) int {
	x, errX := strconv.Atoi(a)
	y, errY := strconv.Atoi(b)
	switch {
	case errX == nil && errY == nil:
		return cmp.Compare(x, y)
	case errX == nil:
		return -1
	case errY == nil:
		return 1
	}
	return cmp.Compare(a, b)
}
