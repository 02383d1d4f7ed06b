package fdb

// Connection is the content of a cluster file: description:id@coordinator,coordinator.
type Connection struct {
	Description  string
	ID           string
	Coordinators []Address
}
