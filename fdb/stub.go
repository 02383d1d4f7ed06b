package fdb

func (c Configuration) Text() string { return string(c.RedundancyMode) + " " + c.StorageEngine }
