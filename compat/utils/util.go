// Package utils holds small helpers.
package utils

import (
	"maps"
	"slices"
)

// MapMerge returns a new map with the items of both; for common keys it uses the second.
func MapMerge(m1, m2 map[string]interface{}) map[string]interface{} {
	merged := map[string]interface{}{}
	maps.Copy(merged, m1)
	maps.Copy(merged, m2)
	return merged
}

// MaxIntSlice returns the largest number, 0 of none.
func MaxIntSlice(v []int) int {
	if len(v) == 0 {
		return 0
	}
	return slices.Max(v)
}

// ContainsString reports whether s is in the slice.
func ContainsString(slice []string, s string) bool { return slices.Contains(slice, s) }
