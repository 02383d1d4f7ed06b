package fdbview

import (
	"fmt"
	"strings"
)

// Configuration is what a database is and what it is to become, in texts of `configure`.
type Configuration struct {
	Cluster string   `json:"cluster"`
	Live    string   `json:"live,omitempty"` // empty: not known
	Wanted  string   `json:"wanted"`
	Stages  []string `json:"stages"`
	// Reason and Message say what blocks the next stage; empty: nothing.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// Text is the configuration for people.
func (v Configuration) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "cluster %s\n", v.Cluster)
	if v.Live != "" {
		fmt.Fprintf(&b, "  live    %s\n", v.Live)
	}
	fmt.Fprintf(&b, "  wanted  %s\n", v.Wanted)
	if v.Live != "" && len(v.Stages) == 0 {
		b.WriteString("  it is as it should be\n")
	}
	for i, stage := range v.Stages {
		fmt.Fprintf(&b, "  stage %d  configure %s\n", i+1, stage)
	}
	if v.Reason != "" {
		fmt.Fprintf(&b, "  the next stage waits  %s\n", Because(v.Reason, v.Message))
	}
	return b.String()
}
