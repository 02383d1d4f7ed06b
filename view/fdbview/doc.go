// Package fdbview is what people and programs are shown of FoundationDB clusters: values whose JSON form is stable, and
// their text.
//
//	status of the object, pods, status document ─▶ Cluster, Plan, Explanation, … ─▶ -o json, /v1/foundationdb
//	                                                                             └▶ Describe, Tree, Text
//
// It judges nothing: what makes the values of objects stands with the verbs of pawl.
package fdbview
