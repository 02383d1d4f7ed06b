package resources

// Filter returns the items for which holds is true.
func Filter[T any](items []T, holds func(T) bool) []T {
	var kept []T
	for _, item := range items {
		if holds(item) {
			kept = append(kept, item)
		}
	}
	return kept
}
