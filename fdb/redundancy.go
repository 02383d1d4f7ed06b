package fdb

// Redundancy is how many replicas the database keeps, and where.
type Redundancy string

const (
	Single        Redundancy = "single"
	Double        Redundancy = "double"
	Triple        Redundancy = "triple"
	ThreeDataHall Redundancy = "three_data_hall"
)
