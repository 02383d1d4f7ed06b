package admin

// ExportedTables returns the names of the tables that an export copies.
func ExportedTables() (names []string) {
	for _, t := range exportedTables {
		names = append(names, t.name)
	}
	return names
}

// EncryptedTables returns the names of the tables with encrypted columns.
func EncryptedTables() (names []string) {
	for _, t := range encryptedTables {
		names = append(names, t.name)
	}
	return names
}
