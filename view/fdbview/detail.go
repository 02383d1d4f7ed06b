package fdbview

import "github.com/pawl-dev/pawl/view"

// Clusters is a page of clusters without their groups and plans.
type Clusters struct {
	Items []Cluster `json:"items"`
	Next  string    `json:"next,omitempty" doc:"cursor of the next page"`
}

// Detail is a cluster with all that belongs to it.
type Detail struct {
	Cluster
	Conditions []view.Condition `json:"conditions"`
	// Stages lead to DesiredConfiguration, one after the other.
	Stages   []string  `json:"stages" doc:"texts of configure that lead to desiredConfiguration, one after the other"`
	Backups  []Backup  `json:"backups"`
	Restores []Restore `json:"restores"`
	// Links are those of the operator that can be held, in the order of its chain.
	Links []string `json:"links" doc:"links of the operator that can be held"`
	// Held are those of Links that a person holds.
	Held []string `json:"held"`
	// Unseen is why something is not shown.
	Unseen string `json:"unseen,omitempty" doc:"why backups or restores are not shown"`
}
