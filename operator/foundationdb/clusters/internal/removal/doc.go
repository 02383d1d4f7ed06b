// Package removal says which groups go, which of them the database excludes and by what name, and how many may be
// excluded at once.
//
//	surplus.go     the groups of a class that are too many
//	budget.go      the marked groups that can be excluded now
//	exclusions.go  what excludes a group, in the database's words
package removal
