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

type (
	objectCondition struct {
		Type, Status, Reason, Message string

		LastTransitionTime time.Time
	}
	objectInstance struct {
		ID string `json:"-"`

		Role, Node, Address, Class, Version, Health, Message string

		Port     int
		LagBytes *int64
	}
	objectRequest struct {
		ID, Kind, Args, State, Code, Message string

		AcceptedAt time.Time
	}
)

// instancesOf returns tables for the conditions, instances and requests of an object
// whose status lists instances by id. rest is the remaining status; for other objects
// it is the whole status.
func instancesOf(status json.RawMessage, now time.Time) (sections []section, rest json.RawMessage) {
	var parts map[string]json.RawMessage
	var instances map[string]objectInstance
	if json.Unmarshal(status, &parts) != nil || json.Unmarshal(parts["instances"], &instances) != nil || len(instances) == 0 {
		return nil, status
	}
	var conditions []objectCondition
	var requests []objectRequest
	if json.Unmarshal(parts["conditions"], &conditions) == nil {
		sections = append(sections, section{"Conditions", TableOf(conditions, []Column[objectCondition]{
			{Head: "TYPE", Cell: func(c objectCondition) string { return c.Type }},
			{Head: "STATUS", Cell: func(c objectCondition) string { return c.Status }},
			{Head: "REASON", Cell: func(c objectCondition) string { return cmp.Or(c.Reason, none) }},
			{Head: "SINCE", Cell: func(c objectCondition) string { return Age(now.Sub(c.LastTransitionTime)) }},
			{Head: "MESSAGE", Cell: func(c objectCondition) string { return oneLine(c.Message) }},
		})})
	}
	var all []objectInstance
	for _, id := range slices.SortedFunc(maps.Keys(instances), byNumber) {
		i := instances[id]
		i.ID = id
		all = append(all, i)
	}
	sections = append(sections, section{"Instances", instanceTable(all)})
	if json.Unmarshal(parts["requests"], &requests) == nil && len(requests) > 0 {
		sections = append(sections, section{"Requests", TableOf(requests, []Column[objectRequest]{
			{Head: "REQUEST", Cell: func(r objectRequest) string { return r.Kind }},
			{Head: "FOR", Cell: func(r objectRequest) string { return cmp.Or(r.Args, none) }},
			{Head: "ID", Cell: func(r objectRequest) string { return r.ID }},
			{Head: "STATE", Cell: func(r objectRequest) string { return r.State }, Health: func(r objectRequest) Health { return HealthOf(r.State) }},
			{Head: "AGE", Cell: func(r objectRequest) string { return Age(now.Sub(r.AcceptedAt)) }},
			{Head: "MESSAGE", Cell: func(r objectRequest) string { return join(" ", r.Code, oneLine(r.Message)) }},
		})})
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

func instanceTable(all []objectInstance) Table {
	return TableOf(all, []Column[objectInstance]{
		{Head: "ID", Cell: func(i objectInstance) string { return i.ID }},
		{Head: "ROLE", Cell: func(i objectInstance) string { return cmp.Or(i.Role, none) }},
		{Head: "HEALTH", Cell: func(i objectInstance) string { return cmp.Or(i.Health, none) }, Health: func(i objectInstance) Health { return HealthOf(i.Health) }},
		{Head: "NODE", Cell: func(i objectInstance) string { return cmp.Or(i.Node, none) }},
		{Head: "ADDRESS", Cell: func(i objectInstance) string {
			if i.Address == "" {
				return none
			}
			return i.Address + ":" + strconv.Itoa(i.Port)
		}},
		{Head: "CLASS", Cell: func(i objectInstance) string { return cmp.Or(i.Class, none) }},
		{Head: "VERSION", Cell: func(i objectInstance) string { return cmp.Or(i.Version, none) }},
		{Head: "LAG", Cell: func(i objectInstance) string {
			if i.LagBytes == nil {
				return none
			}
			return strconv.FormatInt(*i.LagBytes, 10)
		}},
		{Head: "MESSAGE", Cell: func(i objectInstance) string { return oneLine(i.Message) }},
	})
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
