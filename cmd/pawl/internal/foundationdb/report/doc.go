// Package report turns what is known of FoundationDB clusters into the answers of pawl: values whose JSON form is
// stable, and their text.
//
//	object, pods, status document ─▶ Facts ─┬─▶ Of           the cluster as a tree of classes, zones and groups
//	                                        ├─▶ Analyze      what is wrong, and the command that mends it
//	                                        ├─▶ Explain      why a group is where it is, gate by gate
//	                                        ├─▶ Exclusions   what is left on excluded groups
//	                                        └─▶ Configure    the text of configure, its stages, what blocks the next
//
// The values themselves and their text are those of package fdbview.
//
// It reads nothing and writes nothing.
package report
