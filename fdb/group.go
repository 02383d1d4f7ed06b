package fdb

// GroupID names a process group: prefix-class-number.
type GroupID struct {
	Prefix string // empty: none
	Class  Class
	Number int
}
